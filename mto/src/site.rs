//! The commands that `xmml-run` starts on a machine: `mto supervise`, and `mto site`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::multiplexer::{Multiplexer, ServeRelay};
use xmml_site::agent::{Agent, Place};
use xmml_site::binding::forget_own_step;
use xmml_site::cleanup::{end, end_builds, forsake};
use xmml_site::files::{hash_programs, FileError};
use xmml_site::input_lease::{InputLease, LeasedInput};
use xmml_site::polling::Pauses;
use xmml_site::results::list_results;
use xmml_site::signals::ignore;
use xmml_site::staging::{stage, taking};
use xmml_site::supervisor::Supervisor;
use xmml_site::system::raise_limit_of_descriptors;
use xmml_transfer::multichannel_connection::{carry, MultichannelConnection};
use xmml_transfer::{Failure, Peer};
use xmml_wire::error::explained;

/// What runs at a site for a run, or for a job of a workflow.
#[derive(Args)]
pub struct Site {
    /// The folder of the run, or of the job
    #[arg(long, value_name = "FOLDER")]
    run: PathBuf,
    #[command(subcommand)]
    what: What,
}

/// How long a program waits for the launcher that it serves over its standard input.
#[derive(Args, Clone, Copy)]
pub struct LauncherLease {
    /// End when nothing has come over the standard input for so long; an empty line is a sign of life
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lease: Option<Duration>,
    /// PID of the sshd that carries the connection. When the lease expires, terminate it too; otherwise sshd keeps its
    /// forwarded ports open
    #[arg(long, value_name = "PID", requires = "lease")]
    connection: Option<i32>,
}

impl LauncherLease {
    /// Returns whether there is a lease.
    pub fn is_given(self) -> bool {
        self.lease.is_some()
    }

    /// Begins the lease, if there is one. Returns false if the standard input has already ended: the launcher no longer needs the program.
    ///
    /// # Errors
    /// The system refuses what it needs; the text says what.
    pub fn begin(self) -> Result<bool, String> {
        let Some(lasts) = self.lease else { return Ok(true) };
        let lease = InputLease { lasts, connection: self.connection };
        lease.begin().map_err(|error| format!("the standard input cannot be watched: {}", explained(&error)))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|seconds| !seconds.is_zero()).ok_or_else(|| "expected a number of seconds above 0".to_owned())
}

/// Where several channels carry the messages of one command.
#[derive(Args)]
struct FurtherChannels {
    /// Abstract name of a socket to which further channels lead
    #[arg(long, value_name = "NAME")]
    channels: OsString,
    /// End when nothing has come over the standard input for so long; an empty frame is a sign of life
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lease: Duration,
}

impl FurtherChannels {
    /// Begins to speak in messages over the standard input and output, and over what else comes.
    fn open(&self) -> Result<MultichannelConnection, String> {
        let connection = MultichannelConnection::new(self.input()?, stream(io::stdout())?);
        connection.listen(&self.channels);
        Ok(connection)
    }

    /// Carries messages to the command that has opened them, and back.
    fn carry(&self) -> Result<(), String> {
        let carried = carry(&self.channels, self.input()?, stream(io::stdout())?);
        carried.map_err(|error| format!("a channel: {}", explained(&error)))
    }

    fn input(&self) -> Result<LeasedInput, String> {
        LeasedInput::new(self.lease).map_err(|error| explained(&error))
    }
}

#[derive(Subcommand)]
enum What {
    /// On a node of a job: say that it is ready, wait for a word, start the supervisor
    Agent {
        /// The folder of the job and, in that, of the node, below jobs/
        job: PathBuf,
        /// How long it waits if nobody says anything
        #[arg(value_name = "SECONDS")]
        patience: f64,
        /// The Python that submodels run in
        #[arg(long, value_name = "PROGRAM", default_value = "python3")]
        python: OsString,
    },
    /// On the login node: orders from the standard input to the jobs, their reports to the standard output, and relays
    Talk {
        #[command(flatten)]
        launcher: LauncherLease,
    },
    /// Lay out the files that an order names; say which of them are missing, and take these
    Stage(FurtherChannels),
    /// Give the logs and results that are in the folders that an order names
    Results(FurtherChannels),
    /// Carry messages beside the standard input and output of another of these commands
    Channel(FurtherChannels),
    /// Say the hashes of the programs that the standard input names
    Hash,
    /// End the lease, and wait until the agents have ended because of that
    Forsake,
    /// End what still runs on this host; results stay where they are
    End,
    /// End builds that still go on on this host
    EndBuilds,
}

/// Supervises for the process at the other end of the standard input.
///
/// # Errors
/// The system refuses what it needs, or it was told what is no order; the text says what.
pub fn supervise() -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot supervise: {}", explained(&error));
    let control = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let nothing = File::open("/dev/null").map_err(failed)?;
    // SAFETY: both descriptors are open; programs that are started read from nowhere.
    unsafe { libc::dup2(nothing.as_raw_fd(), 0) };
    Supervisor::new(UnixStream::from(control)).map_err(failed)?.run()
}

/// Does what a launch wants at a site; `serve_relay`: how a relay is served there.
///
/// # Errors
/// It did not work; the text says why.
pub fn serve(site: Site, serve_relay: ServeRelay) -> Result<ExitCode, String> {
    ignore(&[libc::SIGXFSZ]); // a file that may not grow any more is an error of writing
    let run = site.run;
    match site.what {
        What::Agent { job, patience, python } => return serve_job(run, job, patience, python),
        What::Talk { launcher } => talk(run, launcher, serve_relay)?,
        What::Stage(channels) => stage_files(&run, &channels)?,
        What::Results(channels) => give_results(&run, &channels)?,
        What::Channel(channels) => channels.carry()?,
        What::Hash => answer(|order| hash_programs(&run, &order))?,
        What::Forsake => forsake(&run)?,
        What::End => end(&run),
        What::EndBuilds => end_builds(&run),
    }
    Ok(ExitCode::SUCCESS)
}

fn serve_job(run: PathBuf, job: PathBuf, patience: f64, python: OsString) -> Result<ExitCode, String> {
    forget_own_step();
    let patience = Duration::try_from_secs_f64(patience).map_err(|error| format!("SECONDS: {error}"))?;
    let place = Place { run: absolute(&run)?, job, patience, python };
    let failed = |error: io::Error| format!("the agent cannot begin: {}", explained(&error));
    let status = Agent::new(place, Pauses::default()).map_err(failed)?.run()?;
    Ok(status.map_or(ExitCode::SUCCESS, |status| ExitCode::from(status as u8)))
}

fn talk(run: PathBuf, launcher: LauncherLease, serve_relay: ServeRelay) -> Result<(), String> {
    if !launcher.begin()? {
        return Ok(());
    }
    raise_limit_of_descriptors().map_err(|error| explained(&error))?; // each agent takes a connection
    Multiplexer::new(run, serve_relay).map_err(|error| explained(&error))?.serve()
}

/// Lays out files as often as there is an order, and takes what is missing each time.
fn stage_files(run: &Path, more: &FurtherChannels) -> Result<(), String> {
    let connection = more.open()?;
    while let Some(order) = receive_order(&connection)? {
        let missing = stage(run, &order).map_err(of_file)?;
        send_answer(&connection, &missing)?;
        if !missing.is_empty() {
            let target = taking(run, order).map_err(of_file)?;
            match connection.take(&target) {
                Ok(_) => {}
                Err(Failure::Stopped) => break, // nobody gives them
                Err(failure) => return failed(connection, &failure),
            }
        }
    }
    connection.finish();
    Ok(())
}

/// Says what there is of what an order names, and gives it.
fn give_results(run: &Path, more: &FurtherChannels) -> Result<(), String> {
    let connection = more.open()?;
    let order = receive_order(&connection)?.ok_or("there is no order")?;
    let results = connection.sign_while(|progress| list_results(run, &order, progress));
    send_answer(&connection, &results)?;
    match connection.give(&results.source(run)) {
        Ok(_) | Err(Failure::Stopped) => {} // or nobody takes them
        Err(failure) => return failed(connection, &failure),
    }
    connection.finish();
    Ok(())
}

/// Has the other end hear the last message, which says why the copy cannot go on.
fn failed(connection: MultichannelConnection, failure: &Failure) -> Result<(), String> {
    connection.finish();
    Err(failure.to_string())
}

fn receive_order<Order: DeserializeOwned>(connection: &MultichannelConnection) -> Result<Option<Order>, String> {
    let text = connection.receive().map_err(|error| format!("the standard input: {}", explained(&error)))?;
    text.map(|text| read_order(&text)).transpose()
}

fn send_answer(connection: &MultichannelConnection, answer: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_vec(answer).map_err(|error| error.to_string())?;
    connection.send(&[&text]).map_err(|_| "the standard output is closed".to_owned())
}

fn stream(fd: impl AsFd) -> Result<File, String> {
    fd.as_fd().try_clone_to_owned().map(File::from).map_err(|error| explained(&error))
}

fn read_order<Order: DeserializeOwned>(text: &[u8]) -> Result<Order, String> {
    serde_json::from_slice(text).map_err(|error| format!("the order on the standard input: {error}"))
}

fn of_file((path, error): (PathBuf, io::Error)) -> String {
    format!("{}: {}", path.display(), explained(&error))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {}", path.display(), explained(&error)))
}

/// Reads an order from the standard input, carries it out, and prints the answer.
fn answer<Order: DeserializeOwned, Answer: Serialize>(
    carry_out: impl FnOnce(Order) -> Result<Answer, FileError>,
) -> Result<(), String> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(|error| format!("the standard input: {}", explained(&error)))?;
    let answer = carry_out(read_order(&text)?).map_err(of_file)?;
    let line = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
    writeln!(io::stdout(), "{line}").map_err(|error| format!("the standard output: {}", explained(&error)))
}
