//! The program `mto`: how it starts, obeys, and ends.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::support::held::{
    leave_descriptors, leave_usual_descriptors, mto, said, unique, worked, Folder, Held, KEY, OTHER,
};
use crate::support::{await_some, await_that};
use serde_json::{json, Value};
use xmml_wire::relay_key::RelayKey;

#[test]
fn a_relay_that_is_held_by_its_input_says_where_it_is_obeys_and_ends_with_it() {
    let mut relay = Held::start(mto().args(["--site", &unique("held"), "--listen", "127.0.0.1:0", "--stdin"]));
    assert!(relay.started["listen"][0].as_str().unwrap().starts_with("127.0.0.1:"));
    let add = json!({"command": "add-run", "run": "canal", "relay_key": KEY});
    assert_eq!(relay.ask(&add), json!({"ok": true, "changed": true}));
    assert_eq!(relay.ask(&add), json!({"ok": true, "changed": false}));
    let other = relay.ask(&json!({"command": "add-run", "run": "canal", "relay_key": OTHER}));
    assert!(other["problem"].as_str().unwrap().contains("another relay key"), "{other}");
    assert!(relay.ask(&json!({"command": "dance"}))["problem"].as_str().unwrap().contains("no request"));
    assert!(relay.ask(&json!({"command": "status"}))["status"]["runs"]["canal"].is_object());
    assert_eq!(relay.ask(&json!({"command": "remove-run", "run": "canal"})), json!({"ok": true, "changed": true}));
    // It stays without a run, unless it was told otherwise.
    for _ in 0..3 {
        assert_eq!(relay.ask(&json!({"command": "status"}))["status"]["runs"], json!({}));
    }
    relay.stdin = None;
    assert!(relay.child.wait().unwrap().success());
}

#[test]
fn the_owner_asks_and_ends_a_relay_by_its_site() {
    let folder = Folder::new("owner");
    let key = folder.write("key", KEY);
    let site = unique("owned");
    let mut relay = Held::start(mto().args(["--site", &site, "--stdin"]));
    let added = mto().args(["add-run", "--site", &site, "canal", "--relay-key-file"]).arg(&key).output().unwrap();
    assert!(added.status.success(), "{}", said(&added));
    let status = mto().args(["status", "--site", &site]).output().unwrap();
    assert!(said(&status).contains("run canal: 0 names registered"), "{}", said(&status));
    let status = mto().args(["status", "--json", "--control", &relay.control()]).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&status.stdout).unwrap()["site"], json!(site));
    let second = mto().args(["--site", &site]).output().unwrap();
    assert_eq!(second.status.code(), Some(5));
    assert!(said(&second).contains("is running already"), "{}", said(&second));
    assert!(mto().args(["stop", "--site", &site]).status().unwrap().success());
    assert!(relay.child.wait().unwrap().success());
    let nobody = mto().args(["status", "--site", &site]).output().unwrap();
    assert!(said(&nobody).contains("no relay of yours is running here"), "{}", said(&nobody));
}

#[test]
fn a_relay_whose_control_socket_somebody_else_has_taken_goes_on_without_one() {
    let site = unique("taken");
    // As any user can: the name is theirs who bind it first.
    let name = format!("\0xmml-mto-{}-{site}", std::fs::metadata("/proc/self").unwrap().uid());
    let taken = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    taken.bind(&socket2::SockAddr::unix(name).unwrap()).unwrap();
    let folder = Folder::new("taken");
    let log = folder.0.join("log");
    let mut relay = Held::start(mto().args(["--site", &site, "--stdin", "--log"]).arg(&log));
    let add = json!({"command": "add-run", "run": "canal", "relay_key": KEY});
    assert_eq!(relay.ask(&add), json!({"ok": true, "changed": true}));
    assert_eq!(relay.control(), "");
    let told = std::fs::read_to_string(&log).unwrap();
    assert_eq!(told.matches("the control socket is taken by somebody else").count(), 1, "{told}");
}

#[test]
fn a_configuration_is_checked_and_taken_over_again_on_request() {
    let folder = Folder::new("config");
    folder.write("one.key", KEY);
    let site = unique("configured");
    let run = |name: &str| format!("[[run]]\nname = \"{name}\"\nrelay_key_file = \"one.key\"\n");
    let config = folder.write("relay.toml", &format!("site = \"{site}\"\n{}", run("first")));
    let checked = mto().args(["--check", "--config"]).arg(&config).output().unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    let relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin"));
    folder.write("relay.toml", &format!("site = \"{site}\"\n{}", run("second")));
    let reloaded = mto().args(["reload", "--config"]).arg(&config).output().unwrap();
    assert!(reloaded.status.success(), "{}", said(&reloaded));
    let status = mto().args(["status", "--json", "--control", &relay.control()]).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(status["runs"]["second"].is_object() && status["runs"]["first"].is_null(), "{status}");
    folder.write("relay.toml", "site = 3");
    let wrong = mto().args(["--check", "--config"]).arg(&config).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said(&wrong).contains("relay.toml:1:8: invalid type"), "{}", said(&wrong));
}

#[test]
fn a_configuration_that_cannot_be_done_on_this_machine_is_not_right() {
    let folder = Folder::new("elsewhere");
    let log = folder.0.join("relay.log");
    let check = |lines: &str| {
        let config = folder.write("relay.toml", &format!("site = \"{}\"\n{lines}\n", unique("elsewhere")));
        mto().args(["--check", "--config"]).arg(&config).output().unwrap()
    };
    // An address for documentation, which no machine has.
    for (lines, expected) in [
        ("listen = [\"192.0.2.1:0\"]", "listen: \"192.0.2.1:0\""),
        ("listen = [\"no such host:1\"]", "listen: \"no such host:1\""),
        ("[log]\nfile = \"no such folder/relay.log\"", "no such folder/relay.log cannot be opened"),
    ] {
        let wrong = check(lines);
        assert_eq!(wrong.status.code(), Some(2), "{lines}: {}", said(&wrong));
        assert!(said(&wrong).contains(expected) && said(&wrong).contains("; expected "), "{}", said(&wrong));
    }
    // That a relay is at work there already is no mistake.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen = [\"{}\"]\n[log]\nfile = \"relay.log\"", taken.local_addr().unwrap());
    let right = check(&listen);
    assert!(right.status.success(), "{}", said(&right));
    assert!(!log.exists(), "only a relay at work makes its log");
}

#[test]
fn a_configuration_that_changes_the_relay_key_of_a_run_changes_nothing() {
    let folder = Folder::new("changed");
    folder.write("one.key", KEY);
    folder.write("two.key", OTHER);
    let site = unique("changed");
    let run = |name: &str, key: &str| format!("[[run]]\nname = \"{name}\"\nrelay_key_file = \"{key}.key\"\n");
    let text = format!("site = \"{site}\"\n{}{}", run("kept", "one"), run("leaving", "one"));
    let config = folder.write("relay.toml", &text);
    let log = folder.0.join("relay.log");
    let mut relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin").arg("--log").arg(&log));
    let text = format!(
        "site = \"{site}\"\n{}{}[log]\nformat = \"json\"\n",
        run("coming", "one"),
        run("kept", "two") // the name stands, the key does not
    );
    folder.write("relay.toml", &text);
    let answer = relay.ask(&json!({"command": "reload"}));
    assert!(answer["problem"].as_str().unwrap().contains("\"kept\" is known here with another relay key"), "{answer}");
    let status = relay.ask(&json!({"command": "status"}))["status"].clone();
    let runs: Vec<&String> = status["runs"].as_object().unwrap().keys().collect();
    assert_eq!(runs, ["kept", "leaving"]);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.lines().all(|line| !line.starts_with('{')), "{logged}");
    folder.write("relay.toml", &text.replace("two.key", "one.key"));
    assert_eq!(relay.ask(&json!({"command": "reload"}))["ok"], json!(true));
    let status = relay.ask(&json!({"command": "status"}))["status"].clone();
    assert!(status["runs"]["coming"].is_object() && status["runs"]["leaving"].is_null(), "{status}");
}

#[test]
fn a_log_that_was_moved_away_is_opened_again_on_request() {
    let folder = Folder::new("rotated");
    let log = folder.0.join("relay.log");
    let config = folder.write("relay.toml", &format!("site = \"{}\"\n", unique("rotated")));
    let _relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin").arg("--log").arg(&log));
    std::fs::rename(&log, folder.0.join("relay.log.1")).unwrap();
    let reloaded = mto().args(["reload", "--config"]).arg(&config).output().unwrap();
    assert!(reloaded.status.success(), "{}", said(&reloaded));
    let fresh = std::fs::read_to_string(&log).unwrap();
    assert!(fresh.contains("configuration taken over"), "{fresh}");
}

#[test]
fn a_relay_that_was_started_by_options_only_opens_its_log_again_on_request() {
    let folder = Folder::new("rotated-options");
    let (log, site) = (folder.0.join("relay.log"), unique("rotated-options"));
    let mut relay = Held::start(mto().args(["--site", &site, "--stdin", "--log"]).arg(&log));
    std::fs::rename(&log, folder.0.join("relay.log.1")).unwrap();
    let reloaded = mto().args(["reload", "--site", &site]).output().unwrap();
    assert!(reloaded.status.success(), "{}", said(&reloaded));
    let fresh = std::fs::read_to_string(&log).unwrap();
    assert!(fresh.contains("no configuration to read again"), "{fresh}");
    // What comes later goes there, too.
    relay.ask(&json!({"command": "add-run", "run": "canal", "relay_key": KEY}));
    assert!(std::fs::read_to_string(&log).unwrap().contains("run added run=canal"));
}

#[test]
fn a_relay_whose_file_says_so_ends_with_its_last_run() {
    let folder = Folder::new("ending");
    folder.write("one.key", KEY);
    let run = "[[run]]\nname = \"canal\"\nrelay_key_file = \"one.key\"\n";
    let text = format!("site = \"{}\"\nends = \"with-last-run\"\n{run}", unique("ending"));
    let config = folder.write("relay.toml", &text);
    let mut relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin"));
    assert_eq!(relay.ask(&json!({"command": "remove-run", "run": "canal"}))["changed"], json!(true));
    assert!(relay.child.wait().unwrap().success());
}

#[test]
fn the_log_goes_to_another_file_when_the_configuration_says_so() {
    let folder = Folder::new("moved");
    let site = unique("moved");
    let text = |file: &str| format!("site = \"{site}\"\n[log]\nfile = \"{file}\"\n");
    let config = folder.write("relay.toml", &text("one.log"));
    let mut relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin"));
    folder.write("relay.toml", &text("no such folder/two.log"));
    let refused = relay.ask(&json!({"command": "reload"}));
    let problem = refused["problem"].as_str().unwrap();
    assert!(problem.contains("two.log cannot be opened") && problem.contains("o such file"), "{problem}");
    folder.write("relay.toml", &text("two.log"));
    assert_eq!(relay.ask(&json!({"command": "reload"}))["ok"], json!(true));
    let two = std::fs::read_to_string(folder.0.join("two.log")).unwrap();
    assert!(two.contains("configuration taken over"), "{two}");
    let one = std::fs::read_to_string(folder.0.join("one.log")).unwrap();
    assert!(one.contains("was not taken over") && !one.contains(": configuration taken over"), "{one}");
}

#[test]
fn what_cannot_change_while_a_relay_is_at_work_is_refused_by_name_and_changes_nothing() {
    let folder = Folder::new("lasting");
    folder.write("one.key", KEY);
    let site = unique("lasting");
    let config = folder.write("relay.toml", &format!("site = \"{site}\"\n"));
    let mut relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin"));
    let coming = "[[run]]\nname = \"coming\"\nrelay_key_file = \"one.key\"\n";
    for (key, line) in [
        ("listen", "listen = [\"127.0.0.1:0\"]"),
        ("metrics", "metrics = \"127.0.0.1:0\""),
        ("control", "control = \"@another\""),
    ] {
        folder.write("relay.toml", &format!("site = \"{site}\"\n{line}\n{coming}"));
        let answer = relay.ask(&json!({"command": "reload"}));
        let expected = format!("{key} cannot change while the relay is at work: stop it and start it again");
        assert_eq!(answer["problem"], json!(expected));
        let status = relay.ask(&json!({"command": "status"}))["status"].clone();
        assert!(status["runs"].as_object().unwrap().is_empty(), "{status}");
    }
}

#[test]
fn a_lease_of_no_time_is_refused() {
    let mut relay = Held::start(mto().args(["--site", &unique("lease"), "--stdin"]));
    for lease in [json!(0), json!(-1.5)] {
        let answer = relay.ask(&json!({"command": "add-run", "run": "canal", "relay_key": KEY, "lease_s": lease}));
        assert_eq!(answer["problem"], json!("lease_s must be a number of seconds above 0"), "{lease}");
    }
}

#[test]
fn what_the_command_line_says_holds_after_a_reload_too() {
    let folder = Folder::new("options");
    let key = folder.write("one.key", KEY);
    let log = folder.0.join("relay.log");
    let certificate = folder.0.join("relay.pem");
    assert!(mto().arg("certificate").arg(&certificate).output().unwrap().status.success());
    // Nobody listens there: what counts is that it is dialled, for every run.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let site = unique("options");
    let config = folder.write("relay.toml", "site = \"from-the-file\"\n");
    let mut relay = Held::start(
        mto()
            .args(["--stdin", "--no-encryption", "--log-json", "--site", &site, "--link", &nowhere, "--config"])
            .arg(&config)
            .arg("--certificate")
            .arg(&certificate)
            .arg("--log")
            .arg(&log)
            .arg("--run")
            .arg(format!("given={}", key.display())),
    );
    let shown = relay.started["certificate"].clone();
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
    };
    let count = |event: &str| lines().iter().filter(|line| line["event"] == event).count();
    folder.write("relay.toml", "site = \"from-the-file\"\n[[run]]\nname = \"added\"\nrelay_key_file = \"one.key\"\n");
    // SAFETY: kill takes no pointers; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(i32::try_from(relay.child.id()).unwrap(), libc::SIGHUP) }, 0);
    let mut status = || relay.ask(&json!({"command": "status"}))["status"].clone();
    let taken_over = await_some("the configuration is taken over", || {
        Some(status()).filter(|status| status["runs"]["added"].is_object())
    });
    assert!(taken_over["runs"]["given"].is_object(), "{taken_over}");
    assert_eq!((&taken_over["site"], &taken_over["certificate"]), (&json!(site), &shown));
    assert_eq!((count("run removed"), count("configuration taken over")), (0, 1));
    // Between two attempts there is no link for a moment.
    let is_dialled = |status: &Value| {
        let links = status["links"].as_array().unwrap();
        links.iter().any(|link| (&link["run"], &link["dialled"]) == (&json!("added"), &json!(nowhere)))
    };
    await_that("it is dialled", || is_dialled(&status()));
}

#[test]
fn a_relay_that_is_there_for_runs_ends_when_the_lease_of_the_last_is_over() {
    let mut relay = Held::start(mto().args(["--site", &unique("leased"), "--stdin", "--ends-with-last-run"]));
    relay.ask(&json!({"command": "add-run", "run": "canal", "relay_key": KEY, "lease_s": 0.05}));
    assert!(relay.child.wait().unwrap().success());
}

#[test]
fn a_log_that_cannot_be_written_does_not_stop_a_relay() {
    let mut relay = Held::start(mto().args(["--site", &unique("full"), "--stdin", "--log", "/dev/full"]));
    relay.ask(&json!({"command": "add-run", "run": "canal", "relay_key": KEY}));
    let status = relay.ask(&json!({"command": "status"}));
    assert!(status["status"]["log_lines_lost"].as_u64().unwrap() > 0, "{status}");
}

#[test]
fn figures_are_told_on_a_loopback_address() {
    let folder = Folder::new("figures");
    let config = folder.write("relay.toml", &format!("site = \"{}\"\nmetrics = \"127.0.0.1:0\"\n", unique("figures")));
    let relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin"));
    let mut stream = std::net::TcpStream::connect(relay.started["metrics"].as_str().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("\nmto_refused_total 0\n"), "{answer}");
}

#[test]
fn who_waits_at_the_owners_door_or_for_figures_while_there_is_no_descriptor_costs_nothing_and_is_served_later() {
    for door in ["owner", "figures"] {
        let folder = Folder::new(&format!("no-descriptor-{door}"));
        let (site, log) = (unique(&format!("no-descriptor-{door}")), folder.0.join("log"));
        let config = folder.write("relay.toml", &format!("site = \"{site}\"\nmetrics = \"127.0.0.1:0\"\n"));
        let relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin").arg("--log").arg(&log));
        let process = relay.child.id();
        leave_descriptors(process, 0);
        let (figures, control) = (relay.started["metrics"].as_str().unwrap().to_owned(), relay.control());
        let asking = std::thread::spawn(move || match door {
            "owner" => said(&mto().args(["status", "--control", &control]).output().unwrap()),
            _ => {
                let mut stream = std::net::TcpStream::connect(figures).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
                let mut answer = String::new();
                std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
                answer
            }
        });
        let is_told = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("cannot accept connections"));
        await_that("it says why nobody is accepted", is_told);
        let before = worked(process);
        std::thread::sleep(std::time::Duration::from_millis(700)); // the time over which its work is counted
        let ticks = worked(process) - before;
        assert!(ticks < 10, "{door}: it worked for {ticks} ticks while it could do nothing");
        leave_usual_descriptors(process);
        let answer = asking.join().unwrap();
        assert!(answer.contains(&format!("relay of {site}")) || answer.contains("mto_refused_total 0"), "{answer}");
    }
}

#[test]
fn a_certificate_is_made_for_its_owner_only_never_over_another_and_shown() {
    let folder = Folder::new("certificate");
    let file = folder.0.join("alpha.pem");
    let made = mto().arg("certificate").arg(&file).output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let again = mto().arg("certificate").arg(&file).output().unwrap();
    assert_eq!(again.status.code(), Some(5), "{}", said(&again));
    let relay = Held::start(mto().args(["--site", &unique("shown"), "--stdin", "--certificate"]).arg(&file));
    assert_eq!(relay.started["certificate"].as_str().unwrap(), String::from_utf8_lossy(&made.stdout).trim());
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let refused = mto().args(["--site", &unique("open"), "--stdin", "--certificate"]).arg(&file).output().unwrap();
    assert!(said(&refused).contains("others can read this key (mode 644)"), "{}", said(&refused));
}

#[test]
fn a_certificate_that_is_not_good_now_is_refused_before_a_relay_starts() {
    let folder = Folder::new("time");
    let time = |seconds| std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let wanted = [
        (time(0), time(86_400 * 365), "valid until 1971-01-01T00:00:00Z"),
        (time(4_102_444_800), time(4_102_444_800 + 86_400), "not valid before 2100-01-01T00:00:00Z"),
    ];
    for (from, to, why) in wanted {
        let old = xmml_path::Credentials::make_valid("relay", from, to).unwrap();
        let file = folder.write("alpha.pem", &old.to_pem());
        let site = unique("time");
        let config = folder.write("relay.toml", &format!("site = \"{site}\"\ncertificate = \"alpha.pem\"\n"));
        let check = mto().arg("--check").arg("--config").arg(&config).output().unwrap();
        let start = mto().args(["--site", &site, "--stdin", "--certificate"]).arg(&file).output().unwrap();
        for refused in [check, start] {
            assert!(!refused.status.success(), "{}", said(&refused));
            let told = ["alpha.pem", why, "mto certificate"].iter().all(|part| said(&refused).contains(part));
            assert!(told, "{}", said(&refused));
        }
    }
}

#[test]
fn whom_a_relay_trusts_can_be_said_when_it_is_started() {
    let folder = Folder::new("trusting");
    let run = format!("canal={}", folder.write("canal.key", KEY).display());
    let [friend, foreign] = ["friend", "foreign"].map(|name| {
        let file = folder.0.join(format!("{name}.pem"));
        let made = mto().arg("certificate").arg(&file).output().unwrap();
        assert!(made.status.success(), "{}", said(&made));
        (unique(name), file, String::from_utf8_lossy(&made.stdout).trim().to_owned())
    });
    let trusting = unique("trusting");
    let mut relay = Held::start(
        mto()
            .args(["--site", &trusting, "--listen", "127.0.0.1:0", "--stdin", "--run", &run])
            .args(["--trust", &friend.2]),
    );
    let to = relay.started["listen"][0].as_str().unwrap().to_owned();
    let mut dial = |site: &str, file: &Path, is_done: &dyn Fn(&Value) -> bool| {
        let _held = Held::start(
            mto().args(["--site", site, "--stdin", "--run", &run, "--link", &to, "--certificate"]).arg(file),
        );
        await_some(&format!("{site} is linked or refused"), || {
            let status = relay.ask(&json!({"command": "status"}))["status"].clone();
            is_done(&status).then(|| status["runs"]["canal"]["sites"].clone())
        })
    };
    let refused = |status: &Value| status["refused"].as_u64().unwrap() > 0;
    assert_eq!(dial(&foreign.0, &foreign.1, &refused), json!([trusting]));
    let linked = |status: &Value| status["runs"]["canal"]["sites"] == json!([friend.0, trusting]);
    dial(&friend.0, &friend.1, &linked);
}

#[test]
fn how_links_are_protected_changes_while_a_relay_is_at_work() {
    let folder = Folder::new("protected");
    let key = folder.write("canal.key", KEY);
    let (one, two) = (unique("one"), unique("two"));
    let run = "[[run]]\nname = \"canal\"\nrelay_key_file = \"canal.key\"\n";
    let mut listening = Held::start(
        mto()
            .args(["--site", &one, "--listen", "127.0.0.1:0", "--clear-from", &two, "--stdin", "--run"])
            .arg(format!("canal={}", key.display())),
    );
    let to = listening.started["listen"][0].as_str().unwrap().to_owned();
    let text =
        |encrypt: bool| format!("site = \"{two}\"\nencrypt = {encrypt}\n{run}[[link]]\nto = \"{to}\"\nstreams = 1\n");
    let config = folder.write("relay.toml", &text(false));
    let mut dialling = Held::start(mto().arg("--config").arg(&config).arg("--stdin"));
    for encrypt in [false, true, false] {
        folder.write("relay.toml", &text(encrypt));
        assert_eq!(dialling.ask(&json!({"command": "reload"}))["ok"], json!(true));
        for relay in [&mut dialling, &mut listening] {
            await_that(&format!("the link with encrypt = {encrypt}"), || {
                let status = relay.ask(&json!({"command": "status"}))["status"].clone();
                let links = status["links"].as_array().unwrap();
                links.len() == 1 && links[0]["state"] == "up" && links[0]["encrypted"] == json!(encrypt)
            });
        }
    }
}

#[test]
fn a_relay_takes_no_secret_of_a_run_however_it_comes() {
    let folder = Folder::new("no-secret");
    let site = unique("no-secret");
    let mut relay = Held::start(mto().args(["--site", &site, "--stdin"]));
    let secret = "5e".repeat(32);
    let answer = relay.ask(&json!({"command": "add-run", "run": "canal", "relay_key": secret}));
    assert!(answer["problem"].as_str().unwrap().contains("mto relay-key SECRET_FILE"), "{answer}");
    let file = folder.write("secret", &secret);
    let run = format!("canal={}", file.display());
    let config = folder.write("relay.toml", "site = \"a\"\n[[run]]\nname = \"canal\"\nrelay_key_file = \"secret\"\n");
    let mut from_input = mto();
    from_input.args(["add-run", "--site", &site, "canal"]).stdin(std::fs::File::open(&file).unwrap());
    let mut from_file = mto();
    from_file.args(["add-run", "--site", &site, "canal", "--relay-key-file"]).arg(&file);
    let mut at_the_start = mto();
    at_the_start.args(["--site", &unique("no-secret-either"), "--run", &run]);
    let mut checked = mto();
    checked.args(["--check", "--config"]).arg(&config);
    for command in [&mut from_input, &mut from_file, &mut at_the_start, &mut checked] {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        assert!(said(&output).contains("mto relay-key SECRET_FILE"), "{}", said(&output));
        assert!(!said(&output).contains("5e5e"), "{}", said(&output));
    }
    assert_eq!(relay.ask(&json!({"command": "status"}))["status"]["runs"], json!({}));
}

#[test]
fn an_instance_with_the_secret_is_let_in_by_a_relay_with_the_key_that_was_made_from_it() {
    let folder = Folder::new("made-key");
    let secret: Vec<u8> = (0..16).collect();
    let file = folder.write("secret", &secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let made = mto().arg("relay-key").arg(&file).output().unwrap();
    let key = folder.write("key", &String::from_utf8(made.stdout).unwrap());
    let (site, log) = (unique("made-key"), folder.0.join("log"));
    let run = format!("canal={}", key.display());
    let relay = Held::start(
        mto().args(["--site", &site, "--listen", "127.0.0.1:0", "--stdin", "--run", &run, "--log"]).arg(&log),
    );
    drop(relay.site(&log).listener_of(("canal", &secret), "somebody"));
}

#[test]
fn no_relay_key_is_made_from_a_secret_that_could_be_found_by_trying() {
    let folder = Folder::new("short");
    let short = folder.write("secret", "00ff");
    let refused = mto().arg("relay-key").arg(&short).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("2 bytes, at least 16 are needed"), "{}", said(&refused));
}

#[test]
fn relay_keys_stand_in_no_list_of_processes_and_in_no_log() {
    let folder = Folder::new("listed");
    let key = folder.write("key", KEY);
    let log = folder.0.join("relay.log");
    let config = folder.write("relay.toml", &format!("site = \"{}\"\n[log]\nlevel = \"debug\"\n", unique("listed")));
    let run = format!("canal={}", key.display());
    let mut relay = Held::start(
        mto()
            .args(["--listen", "127.0.0.1:0", "--stdin", "--run", &run, "--log"])
            .arg(&log)
            .arg("--config")
            .arg(&config),
    );
    // Whatever is done with keys, right or wrong.
    for (run, key) in [("added", OTHER), ("added", KEY), ("canal", OTHER), ("odd", &OTHER[1..])] {
        relay.ask(&json!({"command": "add-run", "run": run, "relay_key": key}));
    }
    relay.ask(&json!({"command": "add-run", "run": "added", "relay_key": KEY, "unknown": OTHER}));
    relay.ask(&json!({"command": "remove-run", "run": "added"}));
    let mut stranger = std::net::TcpStream::connect(relay.started["listen"][0].as_str().unwrap()).unwrap();
    stranger.write_all(KEY.as_bytes()).unwrap();
    // It is turned away.
    let _ = std::io::Read::read_to_end(&mut stranger, &mut Vec::new());
    let status = relay.ask(&json!({"command": "status"})).to_string();
    let process = |file: &str| std::fs::read(format!("/proc/{}/{file}", relay.child.id())).unwrap();
    let logged = std::fs::read(&log).unwrap();
    assert!(String::from_utf8_lossy(&logged).contains("turned away"), "{}", String::from_utf8_lossy(&logged));
    for (what, text) in [
        ("argv", process("cmdline")),
        ("environ", process("environ")),
        ("log", logged),
        ("status", status.into_bytes()),
    ] {
        let text = String::from_utf8_lossy(&text);
        for key in [KEY, OTHER] {
            let digits = key.trim_start_matches("relay-key:");
            assert!(!text.contains(&digits[..16]) && !text.contains(&digits[16..]), "{what}: {text}");
        }
    }
    // The system shows the environment of a process to its owner only; the log is made so that only he can read it.
    assert_eq!(std::fs::metadata(format!("/proc/{}/environ", relay.child.id())).unwrap().mode() & 0o077, 0);
    assert_eq!(std::fs::metadata(&log).unwrap().mode() & 0o077, 0);
}

#[test]
fn a_configuration_for_which_there_are_no_descriptors_changes_no_lease() {
    let folder = Folder::new("leases");
    let secret: Vec<u8> = (0..16).collect();
    let key = RelayKey::of(&secret).to_text();
    folder.write("one.key", &key);
    let (site, log) = (unique("leases"), folder.0.join("log"));
    let run = |name: &str| format!("[[run]]\nname = \"{name}\"\nrelay_key_file = \"one.key\"\n");
    let text = format!("site = \"{site}\"\nlisten = [\"127.0.0.1:0\"]\n{}", run("kept"));
    let config = folder.write("relay.toml", &text);
    let mut relay = Held::start(mto().arg("--config").arg(&config).arg("--stdin").arg("--log").arg(&log));
    let process = relay.child.id();
    let used = relay.site(&log).listener_of(("kept", &secret), "somebody");
    // As long as somebody is there, no lease is over.
    relay.ask(&json!({"command": "add-run", "run": "kept", "relay_key": key, "lease_s": 0.1}));
    folder.write("relay.toml", &format!("{text}lease_s = 1000.0\n{}", run("coming")));
    // Who asked for its status has gone, and the relay has seen that: it had turns since.
    relay.ask(&json!({"command": "status"}));
    leave_descriptors(process, 2); // for the log, and one file at a time
    let answer = relay.ask(&json!({"command": "reload"}));
    assert!(answer["problem"].as_str().is_some_and(|problem| problem.contains("cannot be added")), "{answer}");
    leave_usual_descriptors(process);
    let mut runs = || relay.ask(&json!({"command": "status"}))["status"]["runs"].clone();
    assert!(runs()["kept"].is_object() && runs()["coming"].is_null(), "{}", runs());
    drop(used);
    await_that("its lease is over", || runs()["kept"].is_null());
}
