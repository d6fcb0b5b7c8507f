//! What starts, watches and ends the programs of a run on a machine.
//!
//! The program `mto` is its command line. Everything here runs on machines that need not have anything else of xMML.

pub mod agent;
mod agent_handshake;
mod agent_listener;
mod agent_monitor;
mod agent_protocol;
pub mod binding;
mod captured_output;
pub mod cleanup;
mod cpu_leases;
pub mod files;
mod folder_walk;
pub mod fork_server;
mod gateway_protocol;
pub mod input_lease;
pub mod lines;
pub mod login_proxy;
pub mod memory_group;
mod noted_process;
pub mod patterns;
pub mod polling;
mod process_end;
mod process_pipes;
pub mod processes;
pub mod program;
pub mod protocol;
pub mod results;
pub mod run_folder;
mod run_socket;
mod search_path;
pub mod signals;
pub mod staging;
mod staging_store;
mod supervised_processes;
pub mod supervisor;
pub mod system;
mod working_folder;
