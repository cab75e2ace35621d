//! Creates a server with the credentials of Scaleway's tools; policies say what is tried again and how it is undone.

use std::{path::Path, sync::Arc};

use windlass::lifecycle::{
    Control, ImageChoice, Lifecycle, Options, ServerSpecification, StateDirectory, scaleway_capabilities,
};
use windlass::policy::{Host, HostOptions};
use windlass::scaleway::{Client, Environment, ExplicitSettings, Settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::load(&ExplicitSettings::default(), &Environment::of_process())?; // SCW_SECRET_KEY, ...
    let zone = settings.require_zone()?.clone();
    let client = Client::new(settings)?;
    let state = StateDirectory::open(Path::new("state"))?;
    let mut options = HostOptions::new(state.handle().try_clone()?);
    options.capabilities = scaleway_capabilities(&client); // what policies may be granted
    let policies = Arc::new(Host::new(options)?);
    let lifecycle = Lifecycle::open(Options::new(client, policies, state))?;
    let control = Control::new();
    lifecycle.resume(&control).await?; // what a crash has left open is finished or undone
    let image = ImageChoice::parse("ubuntu_noble");
    let specification = ServerSpecification::new("web".parse()?, zone, "DEV1-S", image);
    let created = lifecycle.create_server(specification, &control).await?; // it runs, or nothing is left
    println!("{} runs; its operation is {}", created.server.id, created.operation);
    Ok(())
}
