//! `derive(Event)`: a struct becomes an event, an enum of such structs the event it holds.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{
    Data, DeriveInput, Error, Field, Fields, LitStr, Member, Path, Token, Type, parse_quote,
};

use crate::attribute::{self, also};
use crate::casing::Casing;
use crate::name::{self, Name};

pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    match &input.data {
        Data::Struct(data) => from_struct(input, &data.fields),
        Data::Enum(data) => from_enum(input, data),
        Data::Union(_) => {
            Err(Error::new_spanned(&input.ident, "derive(Event) is for structs and enums"))
        }
    }
}

/// The attributes of the struct.
#[derive(Default)]
struct Container {
    krate: Option<Path>,
    event_type: Option<LitStr>,
    aggregate: Option<LitStr>,
    /// Where it says so.
    ordered: Option<Path>,
}

fn from_struct(input: &DeriveInput, fields: &Fields) -> syn::Result<TokenStream> {
    let mut container = Container::default();
    let known = "`type`, `aggregate`, `ordered` and `crate`";
    attribute::read(&input.attrs, "event", known, |key, meta| match key {
        "crate" => attribute::once(&mut container.krate, meta, attribute::krate(meta)?),
        "type" => attribute::once(&mut container.event_type, meta, attribute::text(meta)?),
        "aggregate" => attribute::once(&mut container.aggregate, meta, attribute::text(meta)?),
        "ordered" => attribute::once(&mut container.ordered, meta, meta.path.clone()),
        _ => Ok(false),
    })?;

    let Some(event_type) = &container.event_type else {
        // Not the struct's name: stored events would be nobody's after a rename.
        let message = format!(
            "an event says what it is called where it is stored: `#[event(type = \"{}\")]`",
            suggestion(&input.ident)
        );
        return Err(Error::new_spanned(&input.ident, message));
    };
    let (text, span) = (event_type.value(), event_type.span());
    let event_type = Name::new("the event type", text, span, name::EVENT_TYPE_CHARS)?.literal();
    let (text, span) = match &container.aggregate {
        Some(literal) => (literal.value(), literal.span()),
        None => (name::GLOBAL_AGGREGATE.to_owned(), input.ident.span()),
    };
    let aggregate = Name::new("the aggregate type", text, span, name::AGGREGATE_TYPE_CHARS)?;
    let aggregate = aggregate.literal();

    let Setters { mut setters, taken } = setters(fields, container.aggregate.is_some())?;
    if let Some(ordered) = &container.ordered {
        setters.push(order(ordered, &taken)?);
    }
    let tags = tags(fields)?;
    let root = attribute::root(container.krate);
    let (ident, vis) = (&input.ident, &input.vis);
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    // Here a missing `Serialize` is found; the error should point at the struct.
    let payload = quote_spanned!(ident.span()=> builder.json(self));
    let into_event = quote! {
        let builder = #root::Event::builder(Self::EVENT_TYPE)
            .aggregate_type(Self::AGGREGATE_TYPE);
        #(#setters)*
        #payload.build()
    };
    let into = quote!(self.__sendoff_event());
    let event = implementation(input, &root, &into, &quote!(self.__sendoff_tags()));
    Ok(quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #generics #ident #arguments #bounds {
            /// The event type it is written with.
            #vis const EVENT_TYPE: &'static str = #event_type;
            /// The aggregate type it is written with.
            #vis const AGGREGATE_TYPE: &'static str = #aggregate;

            #[doc(hidden)]
            fn __sendoff_event(
                &self,
            ) -> ::core::result::Result<#root::Event, #root::InvalidEvent> {
                #into_event
            }

            #[doc(hidden)]
            fn __sendoff_tags(&self) -> ::std::vec::Vec<(&'static str, ::std::string::String)> {
                let mut tags = ::std::vec::Vec::new();
                #(#tags)*
                tags
            }
        }
        #[automatically_derived]
        impl #generics #root::TypedEvent for #ident #arguments #bounds {
            const EVENT_TYPE: &'static str = #event_type;
            const AGGREGATE_TYPE: &'static str = #aggregate;
        }
        #event
    })
}

/// What the type might be called: the words of the struct's name.
fn suggestion(ident: &syn::Ident) -> String {
    Casing::Dot.apply(&ident.unraw().to_string())
}

fn from_enum(input: &DeriveInput, data: &syn::DataEnum) -> syn::Result<TokenStream> {
    let mut krate = None;
    attribute::read(&input.attrs, "event", "`crate`", |key, meta| match key {
        "crate" => attribute::once(&mut krate, meta, attribute::krate(meta)?),
        _ => Ok(false),
    })?;
    if data.variants.is_empty() {
        return Err(Error::new_spanned(&input.ident, "an enum without variants holds no event"));
    }
    let mut errors = None;
    for variant in &data.variants {
        let one = matches!(&variant.fields, Fields::Unnamed(fields) if fields.unnamed.len() == 1);
        if !one {
            let message = "each variant holds one struct with derive(Event): `Placed(OrderPlaced)`";
            also(&mut errors, Error::new_spanned(&variant.ident, message));
        }
        // Nothing is known here: what an event is called, its struct says.
        let attributes = variant.attrs.iter().chain(variant.fields.iter().flat_map(|f| &f.attrs));
        if let Some(attribute) = attributes.into_iter().find(|a| a.path().is_ident("event")) {
            let message = "attributes belong on the struct the variant holds";
            also(&mut errors, Error::new_spanned(attribute, message));
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let root = attribute::root(krate);
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let ident = &input.ident;
    let held = quote! {
        match self { #(#ident::#variants(event) => #root::IntoEvent::into_event(event),)* }
    };
    let tags = quote! {
        match self { #(#ident::#variants(event) => #root::IntoEvent::tags(event),)* }
    };
    Ok(implementation(input, &root, &held, &tags))
}

/// `IntoEvent` for the type and for a reference to it.
fn implementation(
    input: &DeriveInput,
    root: &TokenStream,
    body: &TokenStream,
    tags: &TokenStream,
) -> TokenStream {
    let ident = &input.ident;
    let tags = quote! {
        fn tags(&self) -> ::std::vec::Vec<(&'static str, ::std::string::String)> {
            #tags
        }
    };
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let mut borrowed = input.generics.clone();
    borrowed.params.insert(0, parse_quote!('__sendoff));
    let (borrowed, _, _) = borrowed.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics #root::IntoEvent for #ident #arguments #bounds {
            fn into_event(self) -> ::core::result::Result<#root::Event, #root::InvalidEvent> {
                #body
            }

            #tags
        }

        #[automatically_derived]
        impl #borrowed #root::IntoEvent for &'__sendoff #ident #arguments #bounds {
            fn into_event(self) -> ::core::result::Result<#root::Event, #root::InvalidEvent> {
                #body
            }

            #tags
        }
    }
}

/// What a field can be marked with.
const KNOWN: &str = "`aggregate_id`, `tenant_id`, `ordering_key`, `occurred_at` and `tag`";

/// What fields are for.
struct Setters {
    /// One statement for each purpose a field serves.
    setters: Vec<TokenStream>,
    /// These purposes.
    taken: Vec<String>,
}

/// The statement that makes the aggregate the key of the event.
fn order(ordered: &Path, taken: &[String]) -> syn::Result<TokenStream> {
    let has = |purpose| taken.iter().any(|taken| taken == purpose);
    let message = if has("ordering_key") {
        "what is `ordered` has its aggregate for a key, and no `ordering_key` besides"
    } else if !has("aggregate_id") {
        "what is `ordered` has its aggregate for a key: a field with `#[event(aggregate_id)]` is missing"
    } else {
        return Ok(quote!(let builder = builder.ordered();));
    };
    Err(Error::new_spanned(ordered, message))
}

fn setters(fields: &Fields, has_aggregate: bool) -> syn::Result<Setters> {
    let mut taken = Vec::new();
    let mut setters = Vec::new();
    for (member, field) in fields.members().zip(fields) {
        attribute::read(&field.attrs, "event", KNOWN, |key, meta| {
            if key == "tag" {
                // Read by `tags`; here it is only passed over.
                return tag_key(meta, &member).map(|_| true);
            }
            if !matches!(key, "aggregate_id" | "tenant_id" | "ordering_key" | "occurred_at") {
                return Ok(false);
            }
            // An id alone says of which order and not that it is one; no handler could ask for it.
            if key == "aggregate_id" && !has_aggregate {
                let message = "an `aggregate_id` needs the kind of its aggregate: \
                               `#[event(aggregate = \"...\")]` on the struct";
                return Err(meta.error(message));
            }
            if taken.iter().any(|taken| taken == key) {
                return Err(meta.error(format!("`{key}` is taken already")));
            }
            taken.push(key.to_owned());
            setters.push(setter(&meta.path, &member, field));
            Ok(true)
        })?;
    }
    Ok(Setters { setters, taken })
}

fn setter(purpose: &Path, member: &Member, field: &Field) -> TokenStream {
    let value = if purpose.is_ident("occurred_at") {
        quote!(::core::clone::Clone::clone(value))
    } else {
        quote!(::std::string::ToString::to_string(value))
    };
    if is_option(&field.ty) {
        quote! {
            let builder = match &self.#member {
                ::core::option::Option::Some(value) => builder.#purpose(#value),
                ::core::option::Option::None => builder,
            };
        }
    } else {
        quote! {
            let value = &self.#member;
            let builder = builder.#purpose(#value);
        }
    }
}

/// One statement for each field that is a tag.
fn tags(fields: &Fields) -> syn::Result<Vec<TokenStream>> {
    let mut tags = Vec::new();
    for (member, field) in fields.members().zip(fields) {
        attribute::read(&field.attrs, "event", KNOWN, |key, meta| {
            if key == "tag" {
                tags.push(tag(&tag_key(meta, &member)?, &member, field));
            }
            Ok(true)
        })?;
    }
    Ok(tags)
}

/// The key of `tag = "key"`, or the name of the field.
fn tag_key(meta: &ParseNestedMeta<'_>, member: &Member) -> syn::Result<LitStr> {
    let (text, span) = if meta.input.peek(Token![=]) {
        let literal = attribute::text(meta)?;
        (literal.value(), literal.span())
    } else {
        match member {
            Member::Named(name) => (name.unraw().to_string(), name.span()),
            Member::Unnamed(_) => {
                return Err(meta.error("a field without a name needs a key: `tag = \"...\"`"));
            }
        }
    };
    if text.contains('=') {
        return Err(Error::new(span, "a tag's key must not contain '=': the first one ends it"));
    }
    Ok(Name::new("the tag's key", text, span, name::TAG_KEY_CHARS)?.literal())
}

fn tag(key: &LitStr, member: &Member, field: &Field) -> TokenStream {
    let push = quote!(tags.push((#key, ::std::string::ToString::to_string(value))));
    if is_option(&field.ty) {
        quote! {
            if let ::core::option::Option::Some(value) = &self.#member {
                #push;
            }
        }
    } else {
        quote! {
            let value = &self.#member;
            #push;
        }
    }
}

/// Whether the type is written as an `Option`: a macro sees names, not types.
fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Path(path)
        if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(input: &DeriveInput) -> String {
        let error = expand(input).unwrap_err();
        error.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn wrong_names_are_refused() {
        let (long_type, long_aggregate) = ("x".repeat(129), "x".repeat(65));
        for (input, message) in [
            (parse_quote! { #[event(type = "")] struct S; }, "the event type must not be empty"),
            (
                parse_quote! { #[event(type = #long_type)] struct S; },
                "the event type has 129 characters; the limit is 128",
            ),
            (
                parse_quote! { #[event(type = "s", aggregate = #long_aggregate)] struct S; },
                "the aggregate type has 65 characters; the limit is 64",
            ),
        ] {
            assert_eq!(refusal(&input), message);
        }
    }

    #[test]
    fn one_field_serves_a_purpose() {
        let input = parse_quote! {
            #[event(type = "s")] struct S { #[event(tenant_id)] a: u8, #[event(tenant_id)] b: u8 }
        };
        assert_eq!(refusal(&input), "`tenant_id` is taken already");
    }

    /// Holds E7: a rename in the code changes nothing that is stored.
    #[test]
    fn a_struct_without_a_type_is_told_what_to_write() {
        let input = parse_quote! { struct OrderPlaced { order: u64 } };
        let message = "an event says what it is called where it is stored: \
                       `#[event(type = \"order.placed\")]`";
        assert_eq!(refusal(&input), message);
    }

    #[test]
    fn the_id_of_an_aggregate_without_a_kind_is_refused() {
        let input = parse_quote! {
            #[event(type = "order.placed")] struct OrderPlaced { #[event(aggregate_id)] order: u64 }
        };
        let message = "an `aggregate_id` needs the kind of its aggregate: \
                       `#[event(aggregate = \"...\")]` on the struct";
        assert_eq!(refusal(&input), message);
    }

    #[test]
    fn an_order_needs_an_aggregate_and_no_other_key() {
        let both = parse_quote! {
            #[event(type = "s", aggregate = "a", ordered)]
            struct S { #[event(aggregate_id)] a: u8, #[event(ordering_key)] b: u8 }
        };
        let message =
            "what is `ordered` has its aggregate for a key, and no `ordering_key` besides";
        assert_eq!(refusal(&both), message);
        let neither =
            parse_quote! { #[event(type = "s", aggregate = "a", ordered)] struct S { a: u8 } };
        let message = "what is `ordered` has its aggregate for a key: \
                       a field with `#[event(aggregate_id)]` is missing";
        assert_eq!(refusal(&neither), message);
        let twice = parse_quote! {
            #[event(type = "s", ordered, ordered)] struct S { #[event(aggregate_id)] a: u8 }
        };
        assert_eq!(refusal(&twice), "given twice");
    }

    #[test]
    fn unknown_and_misplaced_attributes_are_refused() {
        for (input, message) in [
            (
                parse_quote! { #[event(kind = "x")] struct S; },
                "`kind` is not known here; known is `type`, `aggregate`, `ordered` and `crate`",
            ),
            (
                parse_quote! { #[event(type = "s")] struct S { #[event(payload)] a: u8 } },
                "`payload` is not known here; \
                 known is `aggregate_id`, `tenant_id`, `ordering_key`, `occurred_at` and `tag`",
            ),
            (
                parse_quote! { #[event(type = "s")] struct S { #[event(tag = "a=b")] a: u8 } },
                "a tag's key must not contain '=': the first one ends it",
            ),
            (
                parse_quote! { #[event(type = "s")] struct S { #[event(tag = "")] a: u8 } },
                "the tag's key must not be empty",
            ),
            (
                parse_quote! { #[event(type = "s")] struct S(#[event(tag)] u8); },
                "a field without a name needs a key: `tag = \"...\"`",
            ),
            (
                parse_quote! { #[event(type = "x")] enum E { A(S) } },
                "`type` is not known here; known is `crate`",
            ),
            (
                parse_quote! { enum E { #[event(type = "x")] A(S) } },
                "attributes belong on the struct the variant holds",
            ),
        ] {
            assert_eq!(refusal(&input), message);
        }
    }

    #[test]
    fn an_enum_holds_one_event_in_each_variant() {
        let input = parse_quote! { enum E { Good(S), Bare, Two(S, S), Named { field: u8 } } };
        let message = "each variant holds one struct with derive(Event): `Placed(OrderPlaced)`";
        assert_eq!(refusal(&input), [message; 3].join(" | "));
        assert_eq!(refusal(&parse_quote! { enum E {} }), "an enum without variants holds no event");
        let union = parse_quote! { union U { a: u8 } };
        assert_eq!(refusal(&union), "derive(Event) is for structs and enums");
    }
}
