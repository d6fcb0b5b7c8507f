//! `mto`: starts a relay, or speaks with one that runs.

#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
use std::ffi::{c_char, c_int};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use mto::config::{default_control, Config, Ends, LinkConfig, RunConfig};
use mto::control_protocol::{ask, Answer, Request};
use mto::log::{Format, Log};
use mto::relay::{ReadAgain, Relay};
use mto::signals::Signals;
use xmml_path::Credentials;
use xmml_site::cleanup::take_place;
use xmml_site::system::raise_limit_of_descriptors;
use xmml_wire::private_file::{self, SECRET_MAX};
use xmml_wire::relay_key::RelayKey;

mod multiplexer;
mod site;

/// Exit status: wrong usage or configuration.
const USAGE: u8 = 2;

/// Exit status: a relay, or the system, failed.
const FAILED: u8 = 5;

/// The relay of a site: carries the conduits of xMML runs to other sites.
#[derive(Parser)]
#[command(name = "mto", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Args, Clone)]
struct Serve {
    /// The configuration (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only say whether the configuration is right
    #[arg(long, requires = "config")]
    check: bool,
    /// The site that the relay stands at
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Where processes of the site find it: HOST:PORT, port 0 for any free one (may be given several times)
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Another relay to be linked to (may be given several times); what the configuration says of a link can follow, with commas:
    /// HOST:PORT,streams=8,encrypt=false
    #[arg(long, value_name = "HOST:PORT[,KEY=VALUE...]")]
    link: Vec<LinkConfig>,
    /// Do not encrypt the links that it dials: where the network between the relays is trusted
    #[arg(long)]
    no_encryption: bool,
    /// Take links without encryption from the relay of this site (may be given several times); from others they are refused
    #[arg(long, value_name = "SITE")]
    clear_from: Vec<String>,
    /// The file with the certificate that it shows to other relays and its key (see mto certificate); else one is made at the start
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Believe only relays that show this certificate, named by its SHA-256 (may be given several times)
    #[arg(long, value_name = "FINGERPRINT")]
    trust: Vec<String>,
    /// What streams and links may hold together beyond what each has in any case (default: 512 MiB)
    #[arg(long, value_name = "BYTES")]
    stream_memory_b: Option<u64>,
    /// A run, and the file with its relay key (may be given several times)
    #[arg(long, value_name = "RUN=FILE", value_parser = run_and_file)]
    run: Vec<RunConfig>,
    /// Take requests as lines of JSON from the standard input, answer on the standard output, and end with the input
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    launcher: site::LauncherLease,
    /// Take the place of the relay that is noted in this file, which ends, and be noted there
    #[arg(long, value_name = "FILE")]
    note: Option<PathBuf>,
    /// End when the last run is removed
    #[arg(long)]
    ends_with_last_run: bool,
    /// Append the log to this file instead of the standard error
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write the log as lines of JSON
    #[arg(long)]
    log_json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Say how a relay is
    Status {
        #[command(flatten)]
        which: Which,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Have a relay carry a run; the relay key comes from a file, or from the standard input
    AddRun {
        #[command(flatten)]
        which: Which,
        /// The run
        run: String,
        /// The file with its relay key; without it, the key is read from the standard input
        #[arg(long, value_name = "FILE")]
        relay_key_file: Option<PathBuf>,
        /// Forget the run when nobody of it has been connected for so many seconds
        #[arg(long, value_name = "SECONDS")]
        lease: Option<f64>,
    },
    /// Have a relay end everything of a run
    RemoveRun {
        #[command(flatten)]
        which: Which,
        /// The run
        run: String,
    },
    /// Have a relay read its configuration again
    Reload {
        #[command(flatten)]
        which: Which,
    },
    /// Print the relay key of a run: what a relay is given instead of the secret of the run, from which it is made
    RelayKey {
        /// The file with the secret of the run
        secret_file: PathBuf,
    },
    /// Make a certificate that a relay shows to others, write it and its key to a new file, and print its SHA-256
    Certificate {
        /// The file
        file: PathBuf,
        /// For how long it is good
        #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
        days: u32,
    },
    /// End a relay
    Stop {
        #[command(flatten)]
        which: Which,
    },
    /// Start, watch and end programs for the process at the other end of the standard input, a socket (xmml-run starts this)
    Supervise,
    /// Start, watch and end what belongs to a run at a site (xmml-run starts this)
    Site(site::Site),
}

/// Which relay of this user on this host.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// That of this site
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// That of this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The one with this socket
    #[arg(long, value_name = "@NAME")]
    control: Option<String>,
}

/// What went wrong: the exit status and what to tell.
type Failure = (u8, String);

fn main() -> ExitCode {
    resolve_without_plugins();
    let cli = Cli::parse();
    let done = match cli.command {
        None => serve(&cli.serve).map(|()| ExitCode::SUCCESS),
        Some(Command::Site(site)) => site::serve(site, serve_within).map_err(|problem| (FAILED, problem)),
        Some(command) => tell(command).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(status) => status,
        Err((status, problem)) => {
            eprintln!("mto: {problem}");
            ExitCode::from(status)
        }
    }
}

/// Has names resolved by files and DNS alone. glibc would load whatever else /etc/nsswitch.conf names from the machine
/// that this runs on, where a program that is linked statically finds another release of glibc, which it cannot use.
fn resolve_without_plugins() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        extern "C" {
            fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
        }
        // SAFETY: the texts end with a zero byte and are copied; no other thread is there yet. It refuses only what is
        // no database.
        unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    }
}

fn run_and_file(text: &str) -> Result<RunConfig, String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok(RunConfig { name: name.to_owned(), relay_key_file: file.into(), lease_s: None })
        }
        _ => Err("expected RUN=FILE".to_owned()),
    }
}

/// The configuration that the options make, on top of the file if there is one.
fn configured(options: &Serve) -> Result<Config, Failure> {
    let usage = |problem: String| (USAGE, problem);
    let mut config = match &options.config {
        Some(file) => Config::read(file).map_err(|problem| usage(problem.to_string()))?,
        None => Config::default(),
    };
    if let Some(site) = &options.site {
        config.site.clone_from(site);
    }
    if config.site.is_empty() {
        return Err(usage(
            "say which site it is the relay of: --site SITE, or --config FILE (see mto --help)".to_owned(),
        ));
    }
    config.listen.extend(options.listen.iter().cloned());
    config.links.extend(options.link.iter().cloned());
    config.runs.extend(options.run.iter().cloned());
    config.encrypt &= !options.no_encryption;
    config.clear_from.extend(options.clear_from.iter().cloned());
    config.certificate = options.certificate.clone().or(config.certificate);
    config.trusted.extend(options.trust.iter().cloned());
    config.stream_memory_b = options.stream_memory_b.unwrap_or(config.stream_memory_b);
    config.log.file = options.log.clone().or(config.log.file);
    if options.log_json {
        config.log.format = Format::Json;
    }
    if options.ends_with_last_run {
        config.ends = Ends::WithLastRun;
    }
    config.check().map_err(|problem| usage(problem.to_string().trim().to_owned()))?;
    Ok(config)
}

fn serve(options: &Serve) -> Result<(), Failure> {
    let config = configured(options)?;
    if options.check {
        for run in &config.runs {
            run.relay_key().map_err(|problem| (USAGE, problem.to_string()))?;
        }
        config.encryption(None).map_err(|problem| (USAGE, problem.to_string()))?;
        config.check_here().map_err(|problem| (USAGE, problem.to_string()))?;
        println!("The configuration is right.");
        return Ok(());
    }
    if options.launcher.is_given() && !options.stdin {
        return Err((USAGE, "--lease is for a relay that is told what to do with --stdin".to_owned()));
    }
    if !options.launcher.begin().map_err(|problem| (FAILED, problem))? {
        return Ok(());
    }
    let signals = Signals::take_over().map_err(|error| failed("cannot watch signals", error))?;
    let mut relay = set_up(options, &config)?;
    relay.obey_signals(signals).map_err(|error| failed("cannot watch signals", error))?;
    if options.stdin {
        relay.obey_standard_input(true).map_err(|error| failed("cannot watch the standard input", error))?;
    }
    // Whoever starts it learns where it is, and that it is ready.
    print_line(&serde_json::to_string(&relay.status()).unwrap_or_default());
    relay.serve().map_err(|error| failed("cannot go on", error))
}

/// Serves as one of the relays of this process, in this thread; `control`: where its requests come from and its answers go.
///
/// # Errors
/// It does not begin, or cannot go on; the text says why.
fn serve_within(words: &[String], control: UnixStream) -> Result<(), String> {
    let words = std::iter::once("mto").chain(words.iter().map(String::as_str));
    let options = Cli::try_parse_from(words).map_err(|error| error.to_string())?.serve;
    let serve = || -> Result<(), Failure> {
        let mut relay = set_up(&options, &configured(&options)?)?;
        let status = serde_json::to_string(&relay.status()).unwrap_or_default();
        writeln!(&control, "{status}").map_err(|error| failed("cannot answer", error))?;
        relay.obey(control).map_err(|error| failed("cannot watch where its requests come from", error))?;
        relay.serve().map_err(|error| failed("cannot go on", error))
    };
    serve().map_err(|(_, problem)| problem)
}

/// A relay as the options and the configuration say, which is sent nothing yet.
fn set_up(options: &Serve, config: &Config) -> Result<Relay, Failure> {
    if let Some(note) = &options.note {
        take_place(note).map_err(|error| failed(&format!("cannot write {}", note.display()), error))?;
    }
    let log = Log::configured(&config.log).map_err(|problem| (USAGE, problem))?;
    raise_limit_of_descriptors().map_err(|error| failed("cannot begin", error))?; // each stream takes two descriptors
    let mut relay = Relay::new(&config.site, log).map_err(|error| failed("cannot begin", error))?;
    let again = options.clone();
    let read_again: ReadAgain = Box::new(move || configured(&again).map_err(|(_, problem)| problem));
    relay.set_up(config, options.config.is_some().then_some(read_again)).map_err(|problem| (FAILED, problem))?;
    Ok(relay)
}

fn failed(what: &str, error: std::io::Error) -> Failure {
    (FAILED, format!("{what}: {}", xmml_wire::error::explained(&error)))
}

/// To the standard output, which may be closed: that ends nothing.
fn print_line(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn control_of(which: &Which) -> Result<String, Failure> {
    match (&which.site, &which.config, &which.control) {
        (Some(site), _, _) => Ok(default_control(site)),
        (_, Some(file), _) => Ok(Config::read(file).map_err(|problem| (USAGE, problem.to_string()))?.control()),
        (_, _, control) => Ok(control.clone().unwrap_or_default()),
    }
}

fn asked(which: &Which, request: &Request) -> Result<Answer, Failure> {
    let control = control_of(which)?;
    let answer = ask(&control, request).map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            (FAILED, format!("no relay of yours is running here with the socket {control}"))
        }
        _ => (FAILED, format!("{control}: {error}")),
    })?;
    match answer.problem {
        Some(problem) => Err((FAILED, problem)),
        None => Ok(answer),
    }
}

fn tell(command: Command) -> Result<(), Failure> {
    match command {
        Command::Status { which, json } => {
            let answer = asked(&which, &Request::Status)?;
            let status = answer.status.unwrap_or_default();
            match json {
                true => print_line(&serde_json::to_string_pretty(&status).unwrap_or_default()),
                false => print!("{status}"),
            }
        }
        Command::AddRun { which, run, relay_key_file, lease } => {
            let relay_key = match relay_key_file {
                Some(file) => {
                    let config = RunConfig { name: run.clone(), relay_key_file: file, lease_s: lease };
                    config.relay_key().map_err(|problem| (USAGE, problem.to_string()))?
                }
                None => {
                    let mut text = String::new();
                    let read = std::io::stdin().take(SECRET_MAX).read_to_string(&mut text);
                    read.map_err(|error| {
                        (USAGE, format!("the relay key cannot be read from the standard input: {error}"))
                    })?;
                    text.parse().map_err(|problem| (USAGE, format!("the standard input: {problem}")))?
                }
            };
            asked(&which, &Request::AddRun { run, relay_key, lease_s: lease })?;
        }
        Command::RemoveRun { which, run } => {
            let answer = asked(&which, &Request::RemoveRun { run: run.clone() })?;
            if answer.changed == Some(false) {
                return Err((FAILED, format!("the relay does not know the run \"{run}\"")));
            }
        }
        Command::Reload { which } => drop(asked(&which, &Request::Reload)?),
        Command::RelayKey { secret_file } => {
            let secret = private_file::read_secret(&secret_file);
            let secret = secret.map_err(|problem| (USAGE, format!("{}: {problem}", secret_file.display())))?;
            print_line(&RelayKey::of(&secret).to_text());
        }
        Command::Certificate { file, days } => make_certificate(&file, days)?,
        Command::Stop { which } => drop(asked(&which, &Request::Stop)?),
        Command::Supervise => site::supervise().map_err(|problem| (FAILED, problem))?,
        Command::Site(_) => {} // has an exit status of its own, see main
    }
    Ok(())
}

fn make_certificate(file: &Path, days: u32) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |text: String| (FAILED, format!("{}: {text}", file.display()));
    let good_for = Duration::from_secs(u64::from(days) * 24 * 3600);
    let made = Credentials::make("mto", good_for).map_err(|error| failed(error.to_string()))?;
    // Never over another: whoever trusts that one would not know this one.
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut opened = opened.map_err(|error| failed(error.to_string()))?;
    opened.write_all(made.to_pem().as_bytes()).map_err(|error| failed(error.to_string()))?;
    print_line(&made.fingerprint().to_string());
    Ok(())
}
