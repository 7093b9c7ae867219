//! What the derives write is what is stored and what handlers are found by.

mod event;
mod named;
