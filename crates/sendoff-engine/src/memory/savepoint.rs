use super::tx::{Mark, MemoryTx};

/// A savepoint in a [`MemoryTx`]. Dropping it rolls back to it.
#[derive(Debug)]
#[must_use = "a savepoint that is dropped rolls back at once"]
pub struct MemorySavepoint<'t> {
    tx: &'t mut MemoryTx,
    mark: Mark,
    released: bool,
}

impl<'t> MemorySavepoint<'t> {
    pub(super) fn new(tx: &'t mut MemoryTx) -> Self {
        let mark = tx.mark();
        Self { tx, mark, released: false }
    }

    /// Keeps what was written since, for as long as the transaction around it does.
    pub fn release(mut self) {
        self.released = true;
    }

    /// Undoes what was written since, like dropping it.
    pub fn roll_back(self) {}

    /// Sets a savepoint within this one.
    pub fn savepoint(&mut self) -> MemorySavepoint<'_> {
        MemorySavepoint::new(self.tx)
    }

    pub(super) fn tx(&self) -> &MemoryTx {
        self.tx
    }
}

impl Drop for MemorySavepoint<'_> {
    fn drop(&mut self) {
        if !self.released {
            self.tx.undo_to(self.mark);
        }
    }
}
