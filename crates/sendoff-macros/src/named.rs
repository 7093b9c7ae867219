//! `derive(EventType)` and `derive(AggregateType)`: the same rules under two names.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Path};

use crate::attribute::{self, also};
use crate::casing::Casing;
use crate::name::{self, Name};

/// What tells the two derives apart.
#[derive(Debug)]
pub(crate) struct Kind {
    derive: &'static str,
    helper: &'static str,
    what: &'static str,
    limit: usize,
}

pub(crate) const EVENT_TYPE: Kind = Kind {
    derive: "EventType",
    helper: "event_type",
    what: "an event type's name",
    limit: name::EVENT_TYPE_CHARS,
};

pub(crate) const AGGREGATE_TYPE: Kind = Kind {
    derive: "AggregateType",
    helper: "aggregate_type",
    what: "an aggregate type's name",
    limit: name::AGGREGATE_TYPE_CHARS,
};

/// The attributes of the enum or unit struct.
#[derive(Default)]
struct Container {
    krate: Option<Path>,
    rename_all: Option<Casing>,
    rename: Option<LitStr>,
}

pub(crate) fn expand(input: &DeriveInput, kind: &Kind) -> syn::Result<TokenStream> {
    if !input.generics.params.is_empty() {
        let message = format!("derive({}) takes no generics: a name is one text", kind.derive);
        return Err(Error::new_spanned(&input.generics, message));
    }
    let container = container(&input.attrs, kind)?;
    let body = match &input.data {
        Data::Struct(data) if matches!(data.fields, Fields::Unit) => {
            let name = kind.name(&input.ident, container.rename, container.rename_all)?.literal();
            quote!(#name)
        }
        Data::Enum(data) => {
            if let Some(rename) = &container.rename {
                let message =
                    "`rename` belongs on a variant; for all of them there is `rename_all`";
                return Err(Error::new_spanned(rename, message));
            }
            if data.variants.is_empty() {
                let message = "an enum without variants names nothing";
                return Err(Error::new_spanned(&input.ident, message));
            }
            let names = variants(data, container.rename_all, kind)?;
            let arms = names.iter().map(|(variant, name)| {
                let name = name.literal();
                quote!(Self::#variant => #name,)
            });
            quote!(match self { #(#arms)* })
        }
        _ => {
            let message = format!(
                "derive({}) is for enums of unit variants and for unit structs",
                kind.derive
            );
            return Err(Error::new_spanned(&input.ident, message));
        }
    };
    let root = attribute::root(container.krate);
    let (name, derive) = (&input.ident, Ident::new(kind.derive, Span::call_site()));
    Ok(quote! {
        #[automatically_derived]
        impl #root::#derive for #name {
            fn name(&self) -> &str {
                #body
            }
        }
    })
}

fn container(attributes: &[Attribute], kind: &Kind) -> syn::Result<Container> {
    let mut container = Container::default();
    let known = "`rename`, `rename_all` and `crate`";
    attribute::read(attributes, kind.helper, known, |key, meta| match key {
        "crate" => attribute::once(&mut container.krate, meta, attribute::krate(meta)?),
        "rename" => attribute::once(&mut container.rename, meta, attribute::text(meta)?),
        "rename_all" => {
            let text = attribute::text(meta)?;
            let casing =
                text.value().parse().map_err(|message| Error::new(text.span(), message))?;
            attribute::once(&mut container.rename_all, meta, casing)
        }
        _ => Ok(false),
    })?;
    Ok(container)
}

/// The variants with their names, each different from the others.
fn variants<'a>(
    data: &'a syn::DataEnum,
    rename_all: Option<Casing>,
    kind: &Kind,
) -> syn::Result<Vec<(&'a Ident, Name)>> {
    let mut errors = None;
    let mut named = Vec::new();
    let mut taken: HashMap<String, &Ident> = HashMap::new();
    for variant in &data.variants {
        let name = match variant_name(variant, rename_all, kind) {
            Ok(name) => name,
            Err(error) => {
                also(&mut errors, error);
                continue;
            }
        };
        match taken.insert(name.text.clone(), &variant.ident) {
            Some(first) => {
                let message = format!("`{first}` is named `{}` already", name.text);
                also(&mut errors, Error::new(name.span, message));
            }
            None => named.push((&variant.ident, name)),
        }
    }
    match errors {
        Some(errors) => Err(errors),
        None => Ok(named),
    }
}

fn variant_name(
    variant: &syn::Variant,
    rename_all: Option<Casing>,
    kind: &Kind,
) -> syn::Result<Name> {
    if !matches!(variant.fields, Fields::Unit) {
        let message = format!(
            "derive({}) names variants without data; for payloads there is derive(Event)",
            kind.derive
        );
        return Err(Error::new_spanned(&variant.fields, message));
    }
    let mut rename = None;
    attribute::read(&variant.attrs, kind.helper, "`rename`", |key, meta| match key {
        "rename" => attribute::once(&mut rename, meta, attribute::text(meta)?),
        _ => Ok(false),
    })?;
    kind.name(&variant.ident, rename, rename_all)
}

impl Kind {
    fn name(
        &self,
        ident: &Ident,
        rename: Option<LitStr>,
        rename_all: Option<Casing>,
    ) -> syn::Result<Name> {
        let (text, span) = match rename {
            Some(rename) => (rename.value(), rename.span()),
            None => {
                let plain = ident.unraw().to_string();
                (rename_all.map_or(plain.clone(), |casing| casing.apply(&plain)), ident.span())
            }
        };
        Name::new(self.what, text, span, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn refusal(input: &DeriveInput, kind: &Kind) -> String {
        let error = expand(input, kind).unwrap_err();
        error.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn every_wrong_name_of_an_enum_is_reported_at_once() {
        let long = "x".repeat(129);
        let input = parse_quote! {
            enum E {
                #[event_type(rename = "")] A,
                #[event_type(rename = #long)] B,
                #[event_type(rename = "a\nb")] C,
                D(u8),
            }
        };
        assert_eq!(
            refusal(&input, &EVENT_TYPE),
            "an event type's name must not be empty \
             | an event type's name has 129 characters; the limit is 128 \
             | an event type's name must not contain '\\n' \
             | derive(EventType) names variants without data; for payloads there is derive(Event)"
        );
    }

    #[test]
    fn the_aggregate_types_limit_is_its_own() {
        let (fits, long) = ("x".repeat(64), "x".repeat(65));
        let input = parse_quote! { #[aggregate_type(rename = #fits)] struct A; };
        assert!(expand(&input, &AGGREGATE_TYPE).is_ok());
        let input = parse_quote! { #[aggregate_type(rename = #long)] struct A; };
        assert_eq!(
            refusal(&input, &AGGREGATE_TYPE),
            "an aggregate type's name has 65 characters; the limit is 64"
        );
    }

    #[test]
    fn doubles_are_refused_however_they_come_about() {
        let plain = parse_quote! { enum E { Placed, #[event_type(rename = "Placed")] Again } };
        assert_eq!(refusal(&plain, &EVENT_TYPE), "`Placed` is named `Placed` already");
        let cased = parse_quote! {
            #[event_type(rename_all = "snake_case")]
            enum E { HttpCall, HTTPCall }
        };
        assert_eq!(refusal(&cased, &EVENT_TYPE), "`HttpCall` is named `http_call` already");
    }

    #[test]
    fn what_has_no_single_name_is_refused() {
        for (input, message) in [
            (
                parse_quote! { enum E<T> { A(T) } },
                "derive(EventType) takes no generics: a name is one text",
            ),
            (parse_quote! { enum E {} }, "an enum without variants names nothing"),
            (
                parse_quote! { struct S { field: u8 } },
                "derive(EventType) is for enums of unit variants and for unit structs",
            ),
            (
                parse_quote! { union U { a: u8 } },
                "derive(EventType) is for enums of unit variants and for unit structs",
            ),
        ] {
            assert_eq!(refusal(&input, &EVENT_TYPE), message);
        }
    }

    #[test]
    fn unknown_misplaced_and_repeated_attributes_are_refused() {
        for (input, message) in [
            (
                parse_quote! { #[event_type(rename = "e")] enum E { A } },
                "`rename` belongs on a variant; for all of them there is `rename_all`",
            ),
            (
                parse_quote! { enum E { #[event_type(rename_all = "dot.case")] A } },
                "`rename_all` is not known here; known is `rename`",
            ),
            (
                parse_quote! { #[event_type(renam = "e")] enum E { A } },
                "`renam` is not known here; known is `rename`, `rename_all` and `crate`",
            ),
            (
                parse_quote! { enum E { #[event_type(rename = "a", rename = "b")] A } },
                "given twice",
            ),
        ] {
            assert_eq!(refusal(&input, &EVENT_TYPE), message);
        }
        let case = parse_quote! { #[event_type(rename_all = "Title")] enum E { A } };
        assert!(refusal(&case, &EVENT_TYPE).starts_with("unknown case `Title`"));
    }
}
