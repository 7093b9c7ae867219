//! Which addresses a request may go to. Decides; who connects asks about the very address it connects to.

use std::fmt;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses: `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Net {
    first: IpAddr,
    prefix: u8,
}

impl Net {
    const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Self {
        Self { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// By the first three groups and the last three; none of ours has anything between.
    const fn v6(head: [u16; 3], tail: [u16; 3], prefix: u8) -> Self {
        let ([a, b, c], [f, g, h]) = (head, tail);
        Self { first: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, f, g, h)), prefix }
    }

    /// Reads one. No bit after the prefix may be set, so that nobody allows more than is written.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (first, prefix) = match text.split_once('/') {
            Some((first, prefix)) => (first.parse().ok()?, Some(prefix.parse().ok()?)),
            None => (text.parse().ok()?, None),
        };
        let (bits, longest) = bits(first);
        let prefix = prefix.unwrap_or(longest);
        let net = Self { first, prefix };
        (prefix <= longest && bits & !net.mask() == 0).then_some(net)
    }

    fn mask(self) -> u128 {
        let (_, longest) = bits(self.first);
        let host = u32::from(longest - self.prefix);
        let all = u128::MAX >> (128 - u32::from(longest));
        all & u128::MAX.checked_shl(host).unwrap_or(0)
    }

    fn contains(self, address: IpAddr) -> bool {
        let ((first, family), (bits, of)) = (bits(self.first), bits(address));
        family == of && bits & self.mask() == first
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// An address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// What no request goes to unless it is allowed. Of several that hold an address the first is told.
const REFUSED: [(Net, &str); 37] = [
    (Net::v4(127, 0, 0, 0, 8), "loopback"),
    (Net::v4(10, 0, 0, 0, 8), "private"),
    (Net::v4(172, 16, 0, 0, 12), "private"),
    (Net::v4(192, 168, 0, 0, 16), "private"),
    (Net::v4(169, 254, 0, 0, 16), "link-local, with the metadata of clouds"),
    (Net::v4(168, 63, 129, 16, 32), "the metadata of a cloud"),
    (Net::v4(100, 64, 0, 0, 10), "shared by a carrier's customers"),
    (Net::v4(0, 0, 0, 0, 8), "this host"),
    (Net::v4(192, 0, 0, 0, 24), "for protocols"),
    (Net::v4(192, 0, 2, 0, 24), "for documentation"),
    (Net::v4(198, 51, 100, 0, 24), "for documentation"),
    (Net::v4(203, 0, 113, 0, 24), "for documentation"),
    (Net::v4(192, 88, 99, 0, 24), "relays of 6to4"),
    (Net::v4(198, 18, 0, 0, 15), "for benchmarks"),
    (Net::v4(224, 0, 0, 0, 4), "multicast"),
    (Net::v4(240, 0, 0, 0, 4), "reserved, and broadcast"),
    (Net::v6([0; 3], [0, 0, 1], 128), "loopback"),
    (Net::v6([0; 3], [0; 3], 128), "unspecified"),
    (Net::v6([0; 3], [0xffff, 0, 0], 96), "IPv4, mapped"),
    (Net::v6([0; 3], [0; 3], 96), "IPv4, compatible"),
    (Net::v6([0x64, 0xff9b, 0], [0; 3], 96), "IPv4, by NAT64"),
    (Net::v6([0x64, 0xff9b, 1], [0; 3], 48), "IPv4, by a NAT64 of this network"),
    (Net::v6([0x2002, 0, 0], [0; 3], 16), "IPv4, by 6to4"),
    (Net::v6([0x2001, 0, 0], [0; 3], 32), "IPv4, by Teredo"),
    (Net::v6([0x2001, 0, 0], [0; 3], 23), "for protocols"),
    (Net::v6([0x2001, 0xdb8, 0], [0; 3], 32), "for documentation"),
    (Net::v6([0x3fff, 0, 0], [0; 3], 20), "for documentation"),
    (Net::v6([0x3ffe, 0, 0], [0; 3], 16), "of a network that is gone"),
    (Net::v6([0xfe80, 0, 0], [0; 3], 10), "link-local"),
    (Net::v6([0xfec0, 0, 0], [0; 3], 10), "site-local"),
    (Net::v6([0xfc00, 0, 0], [0; 3], 7), "private"),
    (Net::v6([0xff00, 0, 0], [0; 3], 8), "multicast"),
    // Whatever else is not among the addresses that are routed at all.
    (Net::v6([0, 0, 0], [0; 3], 3), "not routed"),
    (Net::v6([0x4000, 0, 0], [0; 3], 2), "not routed"),
    (Net::v6([0x8000, 0, 0], [0; 3], 2), "not routed"),
    (Net::v6([0xc000, 0, 0], [0; 3], 3), "not routed"),
    (Net::v6([0xe000, 0, 0], [0; 3], 3), "not routed"),
];

/// The IPv4 addresses that an address may lead to on its way.
fn within(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let (bits, found): (u128, &[u32]) = match address {
        IpAddr::V4(_) => (0, &[]),
        IpAddr::V6(address) => {
            let [first, second, third, .., five, six, _, _] = address.segments();
            let found: &[u32] = match (first, second, third) {
                (0x2002, ..) => &[80],
                // The server, and the client, whose bits are turned around.
                (0x2001, 0, _) => &[64, TURNED],
                (0x64, 0xff9b, _) | (0, ..) => &[0],
                // ISATAP, under whatever prefix.
                _ if five & !0x200 == 0 && six == 0x5efe => &[0],
                _ => &[],
            };
            (address.to_bits(), found)
        }
    };
    found.iter().map(move |at| {
        let part = |at: u32| u32::try_from(bits >> at & u128::from(u32::MAX)).unwrap_or_default();
        IpAddr::V4(match *at {
            TURNED => (!part(0)).into(),
            at => part(at).into(),
        })
    })
}

/// No shift; stands for Teredo's client.
const TURNED: u32 = u32::MAX;

/// Judges addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard {
    pub(super) allowed: Vec<Net>,
}

impl Guard {
    /// Whether a request may go to this address. One that leads to another is judged as that one too.
    pub(super) fn judge(&self, address: IpAddr) -> Result<(), Refused> {
        for address in iter::once(address).chain(within(address)) {
            let found = REFUSED.iter().find(|(net, _)| net.contains(address));
            if let Some((net, what)) = found
                && !self.allowed.iter().any(|allowed| allowed.contains(address))
            {
                return Err(Refused { net: *net, what });
            }
        }
        Ok(())
    }
}

/// A request may not go to an address. Says in which range it is, and not which it is: it may be an event's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the host's address is in {net} ({what}), where no request goes unless `webhook.allow_addresses` names it"
)]
pub(super) struct Refused {
    net: Net,
    what: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(guard: &Guard, address: &str) -> Result<(), Refused> {
        guard.judge(address.parse().unwrap())
    }

    /// Holds fault 34.
    #[test]
    fn addresses_that_are_not_of_the_internet_are_refused() {
        let hostile = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:8.8.8.8",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::10.0.0.1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2002:808:808::1",
            "3ffe::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "8000::1",
            "c000::1",
            "e000::1",
            "f000::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2606:4700::5efe:127.0.0.1",
            "2606:4700::200:5efe:10.0.0.1",
        ];
        for address in hostile {
            let refused = judge(&Guard::default(), address).expect_err(address).to_string();
            assert!(refused.contains("webhook.allow_addresses"), "{refused}");
        }
        assert!(hostile.len() >= 40);
    }

    #[test]
    fn addresses_of_the_internet_are_not() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "3ffd::1",
        ] {
            assert_eq!(judge(&Guard::default(), address), Ok(()), "{address}");
        }
    }

    #[test]
    fn what_is_allowed_is_that_and_nothing_within_it() {
        let read = |text| Net::read(text).unwrap();
        let allowed = ["10.1.0.0/16", "127.0.0.1", "64:ff9b::/96", "2002::/16"].map(read).to_vec();
        let guard = Guard { allowed };
        for address in ["10.1.2.3", "127.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b::10.1.0.1"] {
            assert_eq!(judge(&guard, address), Ok(()), "{address}");
        }
        // An address that is allowed leads to one that is not.
        let still = ["10.2.0.0", "127.0.0.2", "64:ff9b::10.2.0.1", "2002:a9fe:a9fe::1", "::1"];
        for address in still {
            assert!(judge(&guard, address).is_err(), "{address}");
        }
    }

    #[test]
    fn a_range_is_read_only_as_it_is_meant() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "10.1.2.3", "fd00::/8", "::/0", "::1/128"] {
            assert!(Net::read(text).is_some(), "{text}");
        }
        for text in [
            "",
            "10",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "fd00::1/8",
            "::/129",
            "a/8",
            "10.0.0.0/",
            "0x0a.0.0.0/8",
        ] {
            assert!(Net::read(text).is_none(), "{text}");
        }
        assert_eq!(read_and_shown("10.1.2.3"), "10.1.2.3/32");
    }

    fn read_and_shown(text: &str) -> String {
        Net::read(text).unwrap().to_string()
    }
}
