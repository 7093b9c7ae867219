//! Reading attributes: each key once, unknown keys refused.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitStr, Path};

/// Hands each key of every `#[helper(...)]` to `read`, which answers whether it knows the key.
pub(crate) fn read(
    attributes: &[Attribute],
    helper: &str,
    known: &str,
    mut read: impl FnMut(&str, &ParseNestedMeta<'_>) -> syn::Result<bool>,
) -> syn::Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(helper)) {
        attribute.parse_nested_meta(|meta| {
            let key = meta.path.to_token_stream().to_string();
            if read(&key, &meta)? {
                Ok(())
            } else {
                Err(meta.error(format!("`{key}` is not known here; known is {known}")))
            }
        })?;
    }
    Ok(())
}

/// Fills `slot`, once.
pub(crate) fn once<T>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    value: T,
) -> syn::Result<bool> {
    if slot.replace(value).is_some() {
        return Err(meta.error("given twice"));
    }
    Ok(true)
}

/// The text of `key = "text"`.
pub(crate) fn text(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    meta.value()?.parse()
}

/// The path of `crate = "path"`.
pub(crate) fn krate(meta: &ParseNestedMeta<'_>) -> syn::Result<Path> {
    text(meta)?.parse_with(Path::parse_mod_style)
}

/// Where the generated code finds the traits.
pub(crate) fn root(krate: Option<Path>) -> TokenStream {
    krate.map_or_else(|| quote!(::sendoff), Path::into_token_stream)
}

/// Adds an error to those found so far, so that one compilation shows all of them.
pub(crate) fn also(errors: &mut Option<syn::Error>, error: syn::Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}
