//! The cases, by what they are about. Each starts with an empty store.

mod busy;
mod bytes;
mod claim;
mod clock;
mod end;
mod hold;
mod inspect;
mod letters;
mod lock;
mod loss;
mod order;
mod park;
mod pause;
mod register;
mod replay;
mod retain;
mod settle;
mod write;

pub use busy::*;
pub use bytes::*;
pub use claim::*;
pub use clock::*;
pub use end::*;
pub use hold::*;
pub use inspect::*;
pub use letters::*;
pub use lock::*;
pub use loss::*;
pub use order::*;
pub use park::*;
pub use pause::*;
pub use register::*;
pub use replay::*;
pub use retain::*;
pub use settle::*;
pub use write::*;
