//! The console over HTTP.
