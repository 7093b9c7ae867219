//! How nodes that publish share their pairs.

use crate::lead::Sharing;

/// How pairs are shared between nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Leadership {
    /// Each pair has its leader, and the nodes share them evenly.
    #[default]
    PerPair,
    /// The node that is there longest leads all pairs it knows; the others stand by.
    Global,
}

impl Leadership {
    /// The same for seats of any kind.
    pub const fn sharing(self) -> Sharing {
        match self {
            Self::PerPair => Sharing::Evenly,
            Self::Global => Sharing::Oldest,
        }
    }
}
