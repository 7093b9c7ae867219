//! Ports nobody uses.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port that was free a moment ago. The system hands them out in turn, so that two runs seldom
/// get the same; the one that loses the race takes another.
pub(super) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_listened_on() {
        // Somebody else may take the port in between: one of several must do.
        let listens = || TcpListener::bind((Ipv4Addr::LOCALHOST, free().unwrap())).is_ok();
        assert!((0..5).any(|_| listens()));
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = taken.local_addr().unwrap().port();
        assert!((0..50).all(|_| free().unwrap() != taken));
    }
}
