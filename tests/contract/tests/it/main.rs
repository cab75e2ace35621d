//! Each file that is made of the contract in `wit/`, made again and held equal: `just bindings` writes them.

mod host;
mod messages;
mod protobuf;
mod sdk;
mod shapes;
