//! A recorded decision is put to policies that are not in force, and to nothing else.

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_console::{Access, Candidates, Console};
use windlass_policy::slots::SlotName;
use windlass_policy::{Host, HostOptions, Link, built_in_component};

use crate::world::{World, get_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_put_to_the_policies_of_the_folder_that_was_named_and_to_no_other() {
    let world = World::new().await;
    let id = world.create_and_fail().await;
    let folders = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let path = folders.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        (path.clone(), Dir::open_ambient_dir(path, ambient_authority()).unwrap())
    };
    let ((policies, opened), (_, scratch)) = (open("policies"), open("scratch"));
    // Without the settings of the one that decided, which gave up after two attempts; and for another slot.
    for (name, slot) in
        [("patient.wasm", SlotName::Retry), ("hasty one.wasm", SlotName::Retry), ("release.wasm", SlotName::Release)]
    {
        std::fs::write(policies.join(name), built_in_component(slot).unwrap()).unwrap();
    }
    std::fs::write(policies.join("notes.txt"), "no policy").unwrap();
    std::fs::write(folders.path().join("outside.wasm"), built_in_component(SlotName::Retry).unwrap()).unwrap();
    let hasty = Link::default().with_settings(serde_json::json!({ "attempts": 2 }));
    let candidates = Candidates::new(opened, Host::new(HostOptions::new(scratch)).unwrap());
    let candidates = candidates.with_link("hasty one.wasm", &hasty);
    let access = Access::new("127.0.0.1:0".parse().unwrap(), [], None).unwrap();
    let console = Console::new(world.state(), access).with_candidates(candidates).router();
    let before = world.files();

    // The decision that gave up.
    let operation = world.get(&format!("/operations/{id}")).await.text;
    let given_up = operation.split("given up").nth(1).unwrap();
    let decision = given_up.split("/decisions/").nth(1).unwrap().split('"').next().unwrap();
    let path = format!("/decisions/{decision}");
    let page = get_of(&console, &path).await.text;
    for offered in ["patient.wasm", "hasty%20one.wasm", "release.wasm"] {
        assert!(page.contains(&format!("?policy={offered}#put-to")), "{offered}: {page}");
    }
    assert!(!page.contains("notes.txt") && !page.contains("outside.wasm"), "{page}");
    let put = async |name: &str| get_of(&console, &format!("{path}?policy={name}")).await;
    let patient = put("patient.wasm").await.text;
    assert!(patient.contains("another answer") && patient.contains("verdict: recorded"), "{patient}");
    let hasty = put("hasty%20one.wasm").await.text;
    assert!(hasty.contains("same answer") && !hasty.contains("another answer"), "{hasty}");
    assert!(put("release.wasm").await.text.contains("This policy cannot be asked"));
    for other in ["../outside.wasm", "..%2Foutside.wasm", "notes.txt", "nope.wasm", "%2Fetc%2Fpasswd"] {
        assert_eq!(put(other).await.status.as_u16(), 404, "{other}");
    }
    assert_eq!(world.files(), before, "what is put to a policy leaves no trace");
    // Where no folder was named there is nothing to choose, and none can be asked for.
    assert!(world.get(&path).await.text.contains("--policies FOLDER"));
    assert_eq!(world.get(&format!("{path}?policy=patient.wasm")).await.status.as_u16(), 404);
}
