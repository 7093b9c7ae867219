/// One run of a database's server, from its start to its end.
///
/// What was read in one run may be gone in another: a server that crashed may have shown what it had not
/// written yet, a standby that was promoted never had it, and a restored copy has it no more. Only stores
/// can tell runs apart; they are compared and mean nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run(i64);

impl Run {
    /// The run that a store knows by this number.
    pub const fn numbered(number: i64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> i64 {
        self.0
    }
}
