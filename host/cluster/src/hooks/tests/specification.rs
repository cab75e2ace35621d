//! Hooks as they are written.

use super::*;

fn parse(toml: &str) -> Result<Hook, String> {
    let hook: Hook = toml::from_str(toml).map_err(|error| error.message().to_owned())?;
    match hook.problems() {
        problems if problems.is_empty() => Ok(hook),
        problems => Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

#[test]
fn the_three_kinds_are_read_and_written_again_alike() {
    for text in [
        "program = { command = './go.sh', arguments = ['-x'], environment = { A = '1' }, pass_environment = ['B'] }",
        "time_limit = '90s'\nwebhook = { url = 'https://ci.example.com/hook?x=1', secret_file = 'secret' }",
        "webhook = { url = 'http://127.0.0.1:9/h', secret_env = 'HOOK_SECRET' }",
        "webhook = { url = 'http://ci.example.com/h', secret_env = 'HOOK_SECRET', plain_http = true }",
        "time_limit = '1h'\nssh = \
         { command = 'uptime', key_file = 'key', user = 'admin', port = 2222, address = 'private', parallel = 3 }",
    ] {
        let hook = parse(text).unwrap();
        let mut of_cluster = crate::ClusterSpecification::new("farm".parse().unwrap(), "fr-par-1".parse().unwrap());
        of_cluster.groups.insert("web".parse().unwrap(), crate::NodeGroup::new(1, "DEV1-S", "ubuntu_noble"));
        of_cluster.hooks.start = Some(hook);
        let stored = of_cluster.with_secrets().unwrap();
        assert_eq!(serde_json::from_value::<crate::ClusterSpecification>(stored).unwrap(), of_cluster, "{text}");
    }
    assert_eq!(parse("program = { command = 'true' }").unwrap().time_limit, DEFAULT_TIME_LIMIT);
}

#[test]
fn what_is_wrong_is_refused_with_the_remedy() {
    let key = "ssh-ed25519 AAAA";
    for (text, words) in [
        (String::new(), "needs one of the tables program, webhook and ssh"),
        ("program = { command = 'a' }\nssh = { command = 'b', key_file = 'k' }".into(), "not several"),
        ("porgram = { command = 'a' }".into(), "unknown field `porgram`"),
        ("program = { comand = 'a' }".into(), "unknown field `comand`"),
        ("program = { command = ' ' }".into(), "name a program"),
        ("program = { command = 'a', environment = { 'A-B' = '1' } }".into(), "not a variable name"),
        (
            "program = { command = 'a', environment = { A = '1' }, pass_environment = ['A'] }".into(),
            "A is also in program.pass_environment",
        ),
        ("time_limit = '10ms'\nprogram = { command = 'a' }".into(), "below 100ms"),
        ("time_limit = '2d'\nprogram = { command = 'a' }".into(), "above a day"),
        ("webhook = { url = 'nowhere', secret_env = 'S' }".into(), "it is no URL"),
        ("webhook = { url = 'https://a.example' }".into(), "name secret_file or secret_env"),
        ("webhook = { url = 'https://a.example', secret_env = 'S', secret_file = 's' }".into(), "not both"),
        ("webhook = { url = 'http://a.example', secret_env = 'S' }".into(), "write https"),
        ("webhook = { url = 'ftp://a.example', secret_env = 'S' }".into(), "write https"),
        ("webhook = { url = 'https://me:word@a.example', secret_env = 'S' }".into(), "holds credentials"),
        ("ssh = { command = '', key_file = 'k' }".into(), "ssh.command: it is empty"),
        ("ssh = { command = 'a' }".into(), "missing field `key_file`"),
        ("ssh = { command = 'a', key_file = 'k', parallel = 0 }".into(), "write 1 to 100"),
        ("ssh = { command = 'a', key_file = 'k', address = 'pubic' }".into(), "unknown variant `pubic`"),
        (
            format!("ssh = {{ command = 'a', key_file = 'k', host_keys = ['{key}'] }}"),
            "host_keys[0]: it is no public key",
        ),
        ("ssh = { command = 'a', key_file = 'k', user = 'a b' }".into(), "ssh.user: "),
        (
            "ssh = { command = 'a', key_file = 'k', host_keys = ['ssh-rsa AAAA'] }".into(),
            "write the content of a .pub file",
        ),
    ] {
        let refused = parse(&text).unwrap_err();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}

#[test]
fn paths_are_relative_to_the_specifications_folder_and_names_without_a_slash_are_looked_for_in_path() {
    let resolved = |text: &str| {
        let mut hook = parse(text).unwrap();
        hook.resolve(Path::new("/srv/cluster"));
        hook.action
    };
    let HookAction::Program(program) = resolved("program = { command = './hooks/go.sh' }") else { panic!() };
    assert_eq!(program.command, "/srv/cluster/hooks/go.sh");
    assert_eq!(program.working_directory.as_deref(), Some(Path::new("/srv/cluster")));
    let HookAction::Program(program) = resolved("program = { command = 'go', working_directory = 'w' }") else {
        panic!()
    };
    assert_eq!((program.command.as_str(), program.working_directory.unwrap().to_str()), ("go", Some("/srv/cluster/w")));
    let HookAction::Ssh(ssh) = resolved("ssh = { command = 'a', key_file = '/etc/key' }") else { panic!() };
    assert_eq!(ssh.key_file, Path::new("/etc/key"));
    let HookAction::Webhook(webhook) = resolved("webhook = { url = 'https://a.example', secret_file = 's' }") else {
        panic!()
    };
    assert_eq!(webhook.secret_file.as_deref(), Some(Path::new("/srv/cluster/s")));
}

#[test]
fn words_about_a_hook_hold_scheme_and_host_of_its_url_and_what_is_shown_is_never_taken_for_the_url() {
    let hook = parse("webhook = { url = 'https://a.example/h?token=hush#x', secret_env = 'S' }").unwrap();
    assert_eq!(hook.to_string(), "webhook https://a.example/…");
    assert!(!format!("{hook:?}").contains("hush"));
    for path in ["hush", "services/hush?token=hush", "?hush", "#hush"] {
        let hook = parse(&format!("webhook = {{ url = 'https://a.example:8443/{path}', secret_env = 'S' }}")).unwrap();
        let shown = serde_json::to_string(&hook).unwrap();
        assert!(shown.contains("https://a.example:8443/…") && !shown.contains("hush"), "{shown}");
        let refused = serde_json::from_str::<Hook>(&shown).unwrap_err().to_string();
        assert!(refused.contains("write the whole URL"), "{refused}");
    }
    let ssh = parse("ssh = { command = \"\"\"systemctl start\nfarm\"\"\", key_file = 'k' }").unwrap();
    assert_eq!(ssh.to_string(), "ssh command `systemctl start…`");
}
