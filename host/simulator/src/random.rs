use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Everything random, from one seed.
///
/// What a resource is called and how long a call takes come from separate streams: switching latency on does not change
/// a single id.
#[derive(Debug)]
pub(crate) struct Random {
    names: ChaCha8Rng,
    jitter: ChaCha8Rng,
    requests: ChaCha8Rng,
    seed: u64,
    /// One for each place where servers start.
    boots: BTreeMap<String, ChaCha8Rng>,
    addresses_taken: BTreeSet<Ipv4Addr>,
    /// The /15 that public addresses are taken from.
    public_network: Ipv4Addr,
}

/// Set aside for benchmarks, and belongs to nobody.
const BENCHMARK_NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Each address of it can be listened on, on Linux.
const LOOPBACK_NETWORK: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 0);

impl Random {
    pub(crate) fn new(seed: u64, loopback_addresses: bool) -> Self {
        let stream = |number| {
            let mut generator = ChaCha8Rng::seed_from_u64(seed);
            generator.set_stream(number);
            generator
        };
        Self {
            names: stream(0),
            jitter: stream(1),
            requests: stream(2),
            seed,
            boots: BTreeMap::new(),
            addresses_taken: BTreeSet::new(),
            public_network: if loopback_addresses { LOOPBACK_NETWORK } else { BENCHMARK_NETWORK },
        }
    }

    /// A fresh id.
    pub(crate) fn id(&mut self) -> String {
        uuid_from(&mut self.names)
    }

    /// An id that is the same for the same seed and name: for what has always existed, images for example.
    pub(crate) fn named_id(seed: u64, name: &str) -> String {
        uuid_from(&mut named(seed, name))
    }

    /// Two numbers from 0 to 1 for the next server that starts at this place. They do not depend on other places.
    pub(crate) fn boot(&mut self, zone: &str, server_type: &str) -> [f64; 2] {
        let seed = self.seed;
        let place = format!("{zone}/{server_type}");
        let generator = self.boots.entry(place).or_insert_with_key(|place| named(seed, place));
        [generator.random_range(0.0..1.0), generator.random_range(0.0..1.0)]
    }

    pub(crate) fn request_id(&mut self) -> String {
        uuid_from(&mut self.requests)
    }

    pub(crate) fn jitter_ms(&mut self, most: u64) -> u64 {
        if most == 0 { 0 } else { self.jitter.random_range(0..=most) }
    }

    pub(crate) fn number(&mut self, below: u32) -> u32 {
        self.names.random_range(0..below.max(1))
    }

    /// A public address out of the network of the options.
    pub(crate) fn ipv4(&mut self) -> Ipv4Addr {
        loop {
            let bits = u32::from(self.public_network) | self.names.random_range(1..0x0001_ffff);
            let address = Ipv4Addr::from(bits);
            // More than 131,070 addresses are never in use at once; quotas and memory end long before.
            if self.addresses_taken.len() > 0x0001_fff0 || self.addresses_taken.insert(address) {
                return address;
            }
        }
    }

    pub(crate) fn free_ipv4(&mut self, address: Ipv4Addr) {
        self.addresses_taken.remove(&address);
    }

    /// The network part of a /64 out of 2001:db8::/32, which is set aside for documentation.
    pub(crate) fn ipv6_prefix(&mut self) -> Ipv6Addr {
        let network = u128::from(self.names.random::<u32>());
        Ipv6Addr::from((0x2001_0db8_u128 << 96) | (network << 64))
    }

    /// A host address within a /64.
    pub(crate) fn ipv6_in(&mut self, prefix: Ipv6Addr) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(prefix) | u128::from(self.names.random::<u64>() | 1))
    }

    /// The MAC of a server's public interface.
    pub(crate) fn server_mac(&mut self) -> String {
        self.mac([0xde, 0x00, 0x01])
    }

    pub(crate) fn private_nic_mac(&mut self) -> String {
        self.mac([0x02, 0x00, 0x00])
    }

    fn mac(&mut self, vendor: [u8; 3]) -> String {
        let mut rest = [0_u8; 3];
        self.names.fill_bytes(&mut rest);
        let [a, b, c] = vendor;
        let [d, e, f] = rest;
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// A generator for this name.
fn named(seed: u64, name: &str) -> ChaCha8Rng {
    // FNV-1a: small, stable over versions of everything; nothing here is about secrecy.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    ChaCha8Rng::seed_from_u64(seed ^ hash)
}

fn uuid_from(generator: &mut ChaCha8Rng) -> String {
    let mut bytes = [0_u8; 16];
    generator.fill_bytes(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
