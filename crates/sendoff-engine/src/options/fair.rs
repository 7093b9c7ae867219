//! Fair share by tenant.

use std::collections::BTreeMap;

use sendoff_core::fair::Weights;
use sendoff_core::limits;

use super::OptionsError;

/// How claims are shared among tenants, where [that is wanted](super::OutboxOptions::fair). `Default` weighs
/// all of them the same.
///
/// ```
/// use sendoff_engine::{FairOptions, OutboxOptions};
///
/// let fair = FairOptions { weights: [("acme".to_owned(), 3)].into() };
/// let options = OutboxOptions { fair: Some(fair), ..OutboxOptions::default() };
/// assert!(options.validate().is_ok());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct FairOptions {
    /// What tenants weigh that do not weigh 1, from 1 to 1,000; 1,000 of them at most. A tenant of weight 3
    /// gets three times as many rows as one of weight 1, while both have enough. The empty name is that of
    /// events without a tenant, which count as one. None.
    pub weights: BTreeMap<String, u32>,
}

impl FairOptions {
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let count = |path: String, value: usize, least: usize, most: usize| {
            let is_good = (least..=most).contains(&value);
            if is_good { Ok(()) } else { Err(OptionsError::Count { path, value, least, most }) }
        };
        count("weights".to_owned(), self.weights.len(), 0, limits::TENANT_WEIGHTS)?;
        for (tenant, weight) in &self.weights {
            let (chars, most) = (tenant.chars().count(), limits::TENANT_ID_CHARS);
            if chars > most {
                return Err(OptionsError::Length { path: "weights".to_owned(), chars, most });
            }
            let path = format!("weights.{tenant}");
            count(path, *weight as usize, 1, limits::TENANT_WEIGHT as usize)?;
        }
        Ok(())
    }

    pub(crate) fn weights(&self) -> Weights {
        Weights::new(self.weights.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighing(tenant: &str, weight: u32) -> FairOptions {
        FairOptions { weights: [(tenant.to_owned(), weight)].into() }
    }

    #[test]
    fn weights_are_bounded_and_named_where_they_are_not() {
        assert_eq!(FairOptions::default().check(), Ok(()));
        for weight in [1, limits::TENANT_WEIGHT] {
            assert_eq!(weighing("acme", weight).check(), Ok(()));
        }
        for weight in [0, limits::TENANT_WEIGHT + 1] {
            let said = weighing("acme", weight).check().unwrap_err().to_string();
            assert_eq!(said, format!("weights.acme is {weight}; it must be from 1 to 1000"));
        }
        let name = |chars| "ä".repeat(chars);
        assert_eq!(weighing(&name(limits::TENANT_ID_CHARS), 2).check(), Ok(()));
        let error = weighing(&name(limits::TENANT_ID_CHARS + 1), 2).check().unwrap_err();
        assert!(matches!(error, OptionsError::Length { chars: 65, most: 64, .. }), "{error}");
        let many = |count: usize| (0..count).map(|at| (at.to_string(), 1)).collect();
        let of = |count| FairOptions { weights: many(count) }.check();
        assert_eq!(of(limits::TENANT_WEIGHTS), Ok(()));
        assert_eq!(of(limits::TENANT_WEIGHTS + 1).unwrap_err().path(), "weights");
    }
}
