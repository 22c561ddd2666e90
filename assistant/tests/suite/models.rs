//! Tests of models over each protocol with the loopback model server: answers, requests, failures, lists.

mod answers;
mod failures;
mod fixture;
mod model_lists;
mod requests;
