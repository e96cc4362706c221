//! Webhooks: signed deliveries of committed events to the addresses of customers, and verified
//! events that other services send.

mod entity;
