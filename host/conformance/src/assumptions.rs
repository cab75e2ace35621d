//! What is assumed about Scaleway's API. `docs/assumptions.md` is made of it.

use Check::{NoProbe, Probe};

/// Assumptions about one part of the API.
#[derive(Debug)]
pub struct Topic {
    /// The heading on the page.
    pub name: &'static str,
    /// Markdown below the heading; may be empty.
    pub introduction: &'static str,
    /// In the order of the page.
    pub assumptions: &'static [Assumption],
}

/// A behaviour of the API that Windlass relies on. Texts are Markdown without a full stop at the end.
#[derive(Debug)]
pub struct Assumption {
    /// The code that relies on it names it: `(assumption: <id>)`.
    pub id: &'static str,
    /// The behaviour, and where it was seen or read.
    pub assumed: &'static str,
    /// What relies on it.
    pub relied_on: &'static str,
    /// What happens if the API behaves otherwise.
    pub if_wrong: &'static str,
    /// How it is tested.
    pub check: Check,
}

/// How an assumption is tested.
#[derive(Debug)]
pub enum Check {
    /// By a probe, which does this.
    Probe(&'static str),
    /// Not at all, for this reason.
    NoProbe(&'static str),
}

impl Topic {
    /// All topics, in the order of the page.
    #[must_use]
    pub fn all() -> &'static [Topic] {
        TOPICS
    }
}

impl Assumption {
    /// All assumptions, in the order of the page.
    pub fn all() -> impl Iterator<Item = &'static Assumption> {
        TOPICS.iter().flat_map(|topic| topic.assumptions)
    }

    /// The assumption with this id, for constants: an unknown id does not compile.
    pub(crate) const fn of(id: &str) -> &'static Assumption {
        let mut topic = 0;
        while topic < TOPICS.len() {
            let mut index = 0;
            while index < TOPICS[topic].assumptions.len() {
                let assumption = &TOPICS[topic].assumptions[index];
                if is_equal(assumption.id.as_bytes(), id.as_bytes()) {
                    return assumption;
                }
                index += 1;
            }
            topic += 1;
        }
        panic!("no assumption has this id")
    }
}

/// `==`, which constants cannot use yet.
const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([], []) => true,
        ([first, one @ ..], [second, other @ ..]) => *first == *second && is_equal(one, other),
        _ => false,
    }
}

const TOPICS: &[Topic] = &[
    Topic { name: "Listings", introduction: "", assumptions: LISTINGS },
    Topic { name: "Addresses", introduction: "", assumptions: ADDRESSES },
    Topic { name: "Servers", introduction: "", assumptions: SERVERS },
    Topic { name: "Volumes", introduction: "", assumptions: VOLUMES },
    Topic { name: "Calls", introduction: "", assumptions: CALLS },
    Topic {
        name: "Macs",
        introduction: "A Mac costs a day, so conformance never orders one, and these have no probe. \
            [Machines](machines.md) shows how Windlass uses them.",
        assumptions: MACS,
    },
];

const LISTINGS: &[Assumption] = &[
    Assumption {
        id: "listed-within-settle",
        assumed: "a new resource is in the listings of its kind within two seconds",
        relied_on: "after a lost answer, Windlass creates a resource again if it is not listed after that time \
            (`Limits::settle`)",
        if_wrong: "there are two, and a later look or the sweep finds the first",
        check: Probe("makes one of each kind, and looks every half second"),
    },
    Assumption {
        id: "tag-filter-addresses",
        assumed: "`GET /ips?tags=...`, with a tag that contains `=` and without a project, lists exactly the addresses \
            that carry the tag",
        relied_on: "look-ups after lost answers, cleanups, the sweep",
        if_wrong: "Windlass makes two addresses, and a cleanup wrongly says \"nothing is left\"",
        check: FILTER_PROBE,
    },
    Assumption {
        id: "tag-filter-local-volumes",
        assumed: "`GET /instance/.../volumes?tags=...`, with a tag that contains `=` and without a project, lists \
            exactly the local volumes that carry the tag",
        relied_on: "cleanups, the sweep",
        if_wrong: "a cleanup wrongly says \"nothing is left\"",
        check: FILTER_PROBE,
    },
    Assumption {
        id: "tag-filter-block-volumes",
        assumed: "`GET /block/.../volumes?tags=...`, with one tag that contains `=` and without a project, lists \
            exactly the block volumes that carry the tag",
        relied_on: "look-ups after lost answers, cleanups, the sweep",
        if_wrong: "Windlass makes two block volumes, and a cleanup wrongly says \"nothing is left\"",
        check: FILTER_PROBE,
    },
    Assumption {
        id: "tag-filter-servers",
        assumed: "`GET /servers?tags=...`, with a tag that contains `=` and without a project, lists exactly the \
            servers that carry the tag",
        relied_on: "look-ups after lost answers, cleanups, the sweep, every list of owned resources",
        if_wrong: "Windlass makes two servers, and a cleanup wrongly says \"nothing is left\"; an autoscaler does not \
            learn of machines that it has",
        check: FILTER_PROBE,
    },
    Assumption {
        id: "tag-filter-several",
        assumed: "a listing of the Instance API by two tags includes resources that carry these two and more",
        relied_on: "look-ups by owner and operation tag",
        if_wrong: "Windlass never finds its own resources",
        check: Probe("lists by two of three tags"),
    },
    Assumption {
        id: "filtered-totals",
        assumed: "`X-Total-Count` and `total_count` are the number of items of the filtered listing",
        relied_on: "paging, and whether a reading missed something",
        if_wrong: "a small total hides items; a large one makes a list look incomplete",
        check: Probe("reads each list to its end, with a tag and without, and counts"),
    },
    Assumption {
        id: "mac-listing-complete",
        assumed: "a permitted list of Macs holds every one that the key may see",
        relied_on: "a Mac that is answered 403 and is not listed is gone",
        if_wrong: "if a key's rights were reduced, Windlass forgets a leased Mac",
        check: NoProbe("a key cannot ask for what it may not see"),
    },
    Assumption {
        id: "not-found-is-lasting",
        assumed: "a resource does not exist if its API says so twice in Scaleway's own form; an accepted deletion \
            counts as once",
        relied_on: "the look at the end of an undo or a cleanup; a sweep; a server that vanished",
        if_wrong: "what is left counts as gone, until a sweep lists it",
        check: NoProbe("no test can cause such a fault"),
    },
    Assumption {
        id: "closed-zone-answers",
        assumed: "a closed zone answers the list of its servers with 404, 410 or 501. No recording has one",
        relied_on: "a runner group in several zones sets such a zone aside after a minute, and asks it again every ten \
            minutes",
        if_wrong: "the group treats the zone as one with an outage, or uses an open zone again up to ten minutes too \
            late",
        check: NoProbe("no zone can be closed on purpose"),
    },
];

const FILTER_PROBE: Check = Probe("lists by a tag that one carries and by one that nothing carries");

const ADDRESSES: &[Assumption] = &[
    Assumption {
        id: "gone-address-answers",
        assumed: "a deleted address is answered 404 `not_found` (older recordings have a 403)",
        relied_on: "the look at the end of an undo or a cleanup",
        if_wrong: "each undo and each cleanup ends in \"something is left\"",
        check: Probe("deletes an address and reads it"),
    },
    Assumption {
        id: "attached-address-deletable",
        assumed: "an address can be deleted while a server uses it, as Scaleway's own Cluster API provider does",
        relied_on: "cleanups, which delete addresses beside their server",
        if_wrong: "Windlass retries until the server is gone",
        check: Probe("deletes an address of a server that is not started"),
    },
    Assumption {
        id: "pooled-address-conflict",
        assumed: "Scaleway refuses to create a server with another server's address",
        relied_on: "hosts that share a pool of addresses, if two take the same one at once",
        if_wrong: "the later takes the address from the earlier",
        check: NoProbe("it would have to take an address from a server"),
    },
];

const SERVERS: &[Assumption] = &[
    Assumption {
        id: "user-data-answers",
        assumed: "setting cloud-init is answered 204 without a body, and the content can be read back",
        relied_on: "every creation with cloud-init",
        if_wrong: "a server boots without it and looks healthy, or each creation fails",
        check: Probe("sets a short text and reads it"),
    },
    Assumption {
        id: "user-data-size",
        assumed: "cloud-init may have 128 KiB, as Scaleway's documentation says",
        relied_on: "Windlass refuses more before it makes anything",
        if_wrong: "a creation fails in the middle, and is undone",
        check: Probe("sets as much and reads it"),
    },
    Assumption {
        id: "server-text-limits",
        assumed: "Scaleway accepts names of 128 bytes, and 64 tags of 64 KiB in all. No recording or SDK shows a limit",
        relied_on: "Windlass refuses more before it makes anything",
        if_wrong: "a creation fails in the middle and is undone, or Windlass refuses something that is allowed",
        check: NoProbe("nobody needs more"),
    },
    Assumption {
        id: "action-takes-effect",
        assumed: "a power-on is answered 202, and two seconds later the server is no longer `stopped`",
        relied_on: "a server that is `stopped` after that failed to start",
        if_wrong: "Windlass undoes a server that starts",
        check: Probe("starts a server and reads it twice a second"),
    },
    Assumption {
        id: "running-delete-refused",
        assumed: "DELETE of a running server is refused",
        relied_on: "a server that somebody starts just before Windlass's call stays",
        if_wrong: "the server is deleted",
        check: Probe("deletes a running server"),
    },
    Assumption {
        id: "protected-delete-accepted",
        assumed: "a protected server shows `protected: true`, answers power-off, stop-in-place, reboot and terminate \
            with 400, and can be deleted if it is stopped (measured by others in fr-par-1)",
        relied_on: "Windlass reads the flag right before each change, and leaves such a server alone in any state",
        if_wrong: "Windlass cannot respect a flag that is not shown",
        check: Probe("protects a stopped server, reads it and deletes it. It does not test the actions"),
    },
    Assumption {
        id: "delete-leaves-parts",
        assumed: "DELETE of a stopped server leaves its block volumes and flexible addresses (recorded, 106 times for \
            block volumes)",
        relied_on: "volumes that are kept, and volumes and addresses of others",
        if_wrong: "they are lost",
        check: Probe("deletes a server that was never started, and reads what it had"),
    },
    Assumption {
        id: "terminate-leaves-parts",
        assumed: "terminating a running server leaves its block volumes and flexible addresses (recorded, 68 times for \
            block volumes)",
        relied_on: "volumes that are kept, and volumes and addresses of others",
        if_wrong: "they are lost",
        check: Probe("terminates a running server, and reads what it had"),
    },
    Assumption {
        id: "locked-is-final",
        assumed: "a server that is `locked` stays so until Scaleway's support unlocks it",
        relied_on: "waits end, and a cleanup reports the server",
        if_wrong: "Windlass reports as left what a later attempt would remove",
        check: NoProbe("only Scaleway locks servers"),
    },
    Assumption {
        id: "removal-conflict-passes",
        assumed: "if a removal is answered 409 without a type, or with the type `conflict`, the cause passes within \
            seconds",
        relied_on: "Windlass retries a few times",
        if_wrong: "Windlass reports the resource as left up to a minute later",
        check: NoProbe("no test can cause such a moment"),
    },
    Assumption {
        id: "instance-out-of-stock",
        assumed: "a type that is out of stock is refused with 503 `out_of_stock`, at creation or at power-on",
        relied_on: "Windlass tries the next type of the specification",
        if_wrong: "Windlass tries the same type again",
        check: NoProbe("no test can cause a shortage"),
    },
    Assumption {
        id: "one-nic-per-network",
        assumed: "a server joins a private network once",
        relied_on: "after a lost answer, Windlass recognizes the interface by its network",
        if_wrong: "both interfaces are deleted with the server",
        check: NoProbe("it needs a private network"),
    },
    Assumption {
        id: "own-image-listing",
        assumed: "`GET /images?project=...&public=false` lists the project's own images with name, tags, architecture, \
            state and date (SDK; no recording)",
        relied_on: "the GitLab runner plugin, if `image` is a name or a tag",
        if_wrong: "the plugin says that there is no such image, and does not start",
        check: NoProbe("it would have to make an image"),
    },
    Assumption {
        id: "marketplace-images",
        assumed: "`GET /marketplace/v2/images` lists images with id, name and label (SDK; no recording)",
        relied_on: "`windlass image list`",
        if_wrong: "the command fails, or shows no names. Labels work without it",
        check: NoProbe("only this list uses it"),
    },
    Assumption {
        id: "image-accounts",
        assumed: "Scaleway's Linux images let `root` log in with the authorized keys, its Windows images \
            `Administrator`",
        relied_on: "the GitLab runner plugin, if the configuration names no user; [cluster \
            nodes](clusters.md#log-in-to-the-nodes)",
        if_wrong: "the runner cannot log in. Set the right user in `connector_config.username`",
        check: NoProbe("Windlass does not log in"),
    },
    Assumption {
        id: "hourly-price-server-alone",
        assumed: "`hourly_price` of server types is in euro, without volumes and addresses. No recording has a bill",
        relied_on: "the cost of servers on the console's page *Now*",
        if_wrong: "the page shows a wrong sum; nothing is decided by it",
        check: NoProbe("bills come a day or more later"),
    },
];

const VOLUMES: &[Assumption] = &[
    Assumption {
        id: "root-volume-taggable",
        assumed: "the volume that came with a server can be tagged while it is attached",
        relied_on: "Windlass finds block volumes by tag when their server is gone",
        if_wrong: "each creation fails, and is undone",
        check: Probe("tags the root volume of a server"),
    },
    Assumption {
        id: "attached-volume-refused",
        assumed: "a block volume cannot be deleted while it is attached",
        relied_on: "cleanups, which wait until a volume has left its server, then try the deletion anyway",
        if_wrong: "a running server loses a disk",
        check: Probe("deletes an attached volume"),
    },
    Assumption {
        id: "detached-from-stopped",
        assumed: "a block volume that is detached from a stopped server survives, with its tags (recorded)",
        relied_on: "Windlass detaches what it does not own before it deletes a server",
        if_wrong: "another owner's disk is lost",
        check: Probe("attaches a volume to a server that is not started, and detaches it"),
    },
    Assumption {
        id: "detached-from-running",
        assumed: "a block volume that is detached from a running server survives, with its tags",
        relied_on: "Windlass detaches what it does not own before it deletes a server",
        if_wrong: "the detaching is refused, and the server is not removed",
        check: Probe("attaches a volume to a running server, and detaches it"),
    },
    Assumption {
        id: "marketplace-root-volume",
        assumed: "an image of Scaleway's marketplace needs a root volume of 10 GB, which the recorded ones have",
        relied_on: "Windlass refuses a smaller one before it makes anything",
        if_wrong: "Windlass refuses a size that is allowed, or a creation fails and is undone",
        check: NoProbe("the refusal depends on the image"),
    },
    Assumption {
        id: "scratch-volumes",
        assumed: "a type whose catalogue entry names scratch storage makes scratch volumes with the server, and \
            `terminate` deletes them (SDK)",
        relied_on: "`scratch:SIZE` volumes of the command line, clusters, the plugin and the controller",
        if_wrong: "the creation fails with Scaleway's message and is undone; what is left is listed",
        check: NoProbe("cost"),
    },
    Assumption {
        id: "block-volume-size",
        assumed: "Block Storage makes volumes of up to 10 TB, as Scaleway's documentation says",
        relied_on: "the GitLab runner plugin refuses a configuration with more",
        if_wrong: "the plugin refuses a size that is allowed, or the creation fails",
        check: NoProbe("cost"),
    },
];

const CALLS: &[Assumption] = &[
    Assumption {
        id: "late-effect-within-second-look",
        assumed: "a call whose answer was lost takes effect before the second look, or never",
        relied_on: "the operation is closed after the second look",
        if_wrong: "only the sweep finds what arrives later",
        check: NoProbe("no test can choose when an effect is late"),
    },
    Assumption {
        id: "refusals-have-no-effect",
        assumed: "a call that is answered 4xx with Scaleway's own body had no effect",
        relied_on: "Windlass makes no look-up after such a refusal",
        if_wrong: "the look at the end of the operation finds what was made",
        check: NoProbe("no refusal with an effect is known"),
    },
    Assumption {
        id: "retry-after-header",
        assumed: "`Retry-After` is in seconds or an HTTP date. None of 296 recorded 429s has it",
        relied_on: "it is the shortest next wait",
        if_wrong: "a wait is too long, but limited",
        check: RATE_LIMITING_PROBE,
    },
    Assumption {
        id: "rate-limit",
        assumed: "60 calls in a second are accepted. The first recorded 429 came with 65",
        relied_on: "the client's own limits",
        if_wrong: "calls are answered 429, and are sent again later",
        check: RATE_LIMITING_PROBE,
    },
    Assumption {
        id: "quota-names",
        assumed: "quotas of servers have \"servers\" in their names, and the type if they count one",
        relied_on: "Windlass refuses a cluster that cannot fit before it makes anything",
        if_wrong: "the cluster fails in the middle, and is undone",
        check: NoProbe("keys for machines may hardly read quotas"),
    },
];

const RATE_LIMITING_PROBE: Check = NoProbe("it would cause a rate limit, for all who share it");

const MACS: &[Assumption] = &[
    Assumption {
        id: "mac-reinstall-shows",
        assumed: "once a reinstallation is answered, the Mac's status is `reinstalling`",
        relied_on: "only then a Mac gets its pool's name",
        if_wrong: "a release ends in \"try again\", and the Mac stays out of its pool",
        check: NoProbe("cost"),
    },
    Assumption {
        id: "mac-rename-within-claim-settle",
        assumed: "a rename takes effect within `claim_settle` (2 s)",
        relied_on: "two processes with different state directories never claim the same Mac",
        if_wrong: "they do",
        check: NoProbe("cost"),
    },
    Assumption {
        id: "mac-rename-while-reinstalling",
        assumed: "a Mac can be renamed while it is being reinstalled",
        relied_on: "the last of the three steps back to the pool",
        if_wrong: "it still counts as returned, and the next start names it",
        check: NoProbe("cost"),
    },
    Assumption {
        id: "mac-busy-answer",
        assumed: "a Mac that is busy with something else answers 409 `transient_state`",
        relied_on: "Windlass postpones a release that would meet that",
        if_wrong: "nothing",
        check: NoProbe("cost"),
    },
    Assumption {
        id: "mac-updated-at-moves",
        assumed: "`updated_at` moves with a rename and with a restart",
        relied_on: "the age of a claim; whether a restart took effect",
        if_wrong: "another installation's half-made claim counts as old too soon; a restart is requested once more",
        check: NoProbe("cost"),
    },
    Assumption {
        id: "mac-ssh-password",
        assumed: "the sshd of a Mac accepts the user `ssh_username` with `sudo_password`, which is also the password \
            of `sudo`",
        relied_on: "the set-up over ssh without a private key, and `sudo -A` in its scripts",
        if_wrong: "the set-up fails to log in; use a key of the project",
        check: NoProbe("cost"),
    },
    Assumption {
        id: "mac-host-key-stays",
        assumed: "a Mac shows the same ssh host key until it is reinstalled, and Scaleway's API shows none",
        relied_on: "a later run of the set-up must see the first key",
        if_wrong: "later runs fail with the two fingerprints",
        check: NoProbe("cost"),
    },
    Assumption {
        id: "mac-scheduled-deletion",
        assumed: "Scaleway deletes a Mac whose deletion is scheduled at its `deletable_at`",
        relied_on: "the answer to a deletion that comes before its day is over",
        if_wrong: "billing continues; the reclaim reports it",
        check: NoProbe("cost"),
    },
];
