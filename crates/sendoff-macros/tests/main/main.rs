//! What the derives write is what is stored and what listeners are found by.

mod event;
mod named;
