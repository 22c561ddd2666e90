//! All integration tests of the crate: real sockets on loopback, a server in the same process, and a scripted agent.

mod faults;
mod fixture;
mod hosts;
mod metrics;
mod page;
mod security;
mod share;
mod share_methods;
mod streamable;
mod tls;
mod websocket;
