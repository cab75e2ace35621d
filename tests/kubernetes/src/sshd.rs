use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::Process;
use crate::control_plane::free_port;

/// Where distributions keep it, outside of what users run.
const PLACES: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"];

/// OpenSSH's sshd in the place of a Mac's: on an address of loopback, with a home folder of its own. Whoever runs the
/// tests logs in there, with the key of [`Sshd::user_key`].
#[derive(Debug)]
pub struct Sshd {
    process: Process,
    program: PathBuf,
    folder: PathBuf,
    address: Ipv4Addr,
    port: u16,
}

impl Sshd {
    /// The program; `None`, with a visible line, where it is not installed (`just test-kubernetes` does where it may).
    #[must_use]
    pub fn found() -> Option<PathBuf> {
        let found = PLACES.iter().map(Path::new).find(|place| place.exists());
        if found.is_none() {
            eprintln!("SKIPPED: needs OpenSSH's sshd: apt-get install openssh-server");
        }
        found.map(Path::to_owned)
    }

    /// A port on which no address of loopback listens yet, most probably.
    ///
    /// # Errors
    /// When there is none.
    pub fn port() -> Result<u16> {
        free_port()
    }

    /// Starts one with its files in `folder`, which is new or of one that has ended.
    ///
    /// # Errors
    /// When it does not start; with its last words.
    pub fn start(program: &Path, folder: &Path, address: Ipv4Addr, port: u16) -> Result<Self> {
        for part in ["home", "bin"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        for name in ["host_key", "user_key"] {
            if !folder.join(name).exists() {
                keygen(&folder.join(name))?;
            }
        }
        let shown = folder.display();
        let configuration = format!(
            "Port {port}\nListenAddress {address}\nHostKey {shown}/host_key\nAuthorizedKeysFile {shown}/user_key.pub\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin prohibit-password\nSetEnv HOME={shown}/home \
             PATH={shown}/bin:/usr/local/bin:/usr/bin:/bin\nLogLevel VERBOSE\n"
        );
        std::fs::write(folder.join("sshd_config"), configuration)?;
        // Where root runs it, it wants that folder, which its service would make.
        let _ = std::fs::create_dir("/run/sshd");
        let mut command = Command::new(program);
        command.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config"));
        let process = Process::start("sshd", &mut command, &folder.join("sshd.log"))?;
        Ok(Self { process, program: program.to_owned(), folder: folder.to_owned(), address, port })
    }

    /// The private key that it lets in, as `ssh-keygen` writes it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn user_key(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.join("user_key"))?)
    }

    /// Lets another's key in as well: that of a fleet.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn accept(&self, other: &Self) -> Result<()> {
        for name in ["user_key", "user_key.pub"] {
            std::fs::copy(other.folder.join(name), self.folder.join(name))?;
        }
        Ok(())
    }

    /// The host key that it shows, as its `.pub` file has it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn host_key(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.join("host_key.pub"))?.trim().to_owned())
    }

    /// The home folder of whoever logs in.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// A folder of programs that whoever logs in finds before the system's: those that only a Mac has.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Who logs in.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn user() -> Result<String> {
        let output = Command::new("id").arg("-un").output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Ends it, and starts it again with another host key: another machine at the same address.
    ///
    /// # Errors
    /// When it does not start.
    pub fn replace(&mut self) -> Result<()> {
        self.process.kill();
        for name in ["host_key", "host_key.pub"] {
            std::fs::remove_file(self.folder.join(name))?;
        }
        self.start_again()
    }

    /// Starts it again after [`Sshd::stop`].
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_again(&mut self) -> Result<()> {
        *self = Self::start(&self.program, &self.folder, self.address, self.port)?;
        Ok(())
    }

    /// Ends it: nobody listens there any more. What runs on its machine goes on.
    pub fn stop(&mut self) {
        self.process.kill();
    }

    /// What it says it did.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.written()
    }
}

fn keygen(file: &Path) -> Result<()> {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(file).status();
    ensure!(made.context("run ssh-keygen")?.success(), "ssh-keygen failed");
    Ok(())
}
