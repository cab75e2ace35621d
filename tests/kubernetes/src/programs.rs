use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The programs that the tests run, as `go/build.sh` leaves them in one folder.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    controller: PathBuf,
}

impl Programs {
    /// Those in the folder `WINDLASS_KUBERNETES_BINARIES` names, else in the workspace's `target/kubernetes/bin`, and
    /// the controller at `WINDLASS_CONTROLLER`, else beside the test program.
    ///
    /// `None`, with a line that says what is missing and how it is made, when one is not there. With
    /// `WINDLASS_KUBERNETES_REQUIRED` set that is a panic instead: what must not be skipped silently, isn't.
    #[must_use]
    pub fn found() -> Option<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = std::env::var_os("WINDLASS_KUBERNETES_BINARIES")
            .map_or_else(|| workspace.join("target/kubernetes/bin"), PathBuf::from);
        let controller = std::env::var_os("WINDLASS_CONTROLLER").map_or_else(beside_this, PathBuf::from);
        let programs = Self { folder, controller };
        let needed = [
            programs.path("etcd"),
            programs.path("kube-apiserver"),
            programs.path("kube-controller-manager"),
            programs.path("kubectl"),
            programs.path("cluster-api"),
            programs.path("cluster-api-config/version"),
            programs.path("kubeadm-bootstrap"),
            programs.path("kubeadm-control-plane"),
            programs.path("clusterctl"),
            programs.path("helm"),
            programs.controller.clone(),
        ];
        match needed.into_iter().find(|path| !path.exists()) {
            None => Some(programs),
            Some(missing) => {
                let said = format!("{} is missing; `just test-kubernetes` builds it", missing.display());
                assert!(std::env::var_os("WINDLASS_KUBERNETES_REQUIRED").is_none(), "{said}");
                eprintln!("SKIPPED: {said}");
                None
            }
        }
    }

    /// One of the Go programs, or a folder beside them.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `windlass-controller`.
    #[must_use]
    pub fn controller(&self) -> &Path {
        &self.controller
    }

    /// A file or folder of the controller's `deploy`.
    #[must_use]
    pub fn deploy(&self, path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host/controller/deploy").join(path)
    }

    /// The folder of a release under test, as `just release` leaves it, which `WINDLASS_RELEASE` names: the chart and
    /// clusterctl's files are taken from it then, and not from the tree.
    #[must_use]
    pub fn release(&self) -> Option<PathBuf> {
        std::env::var_os("WINDLASS_RELEASE").map(PathBuf::from)
    }

    /// The names of our definitions, one for each kind, as they are committed.
    ///
    /// # Errors
    /// When their folder cannot be read.
    pub fn definitions(&self) -> std::io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for entry in std::fs::read_dir(self.deploy("crds"))? {
            let file = entry?.file_name().to_string_lossy().into_owned();
            names.extend(file.strip_suffix(".yaml").filter(|name| name.ends_with(".windlass.dev")).map(str::to_owned));
        }
        Ok(names)
    }
}

/// `windlass-controller` in the folder of this program or the one above: `target/debug` for a test in
/// `target/debug/deps`.
fn beside_this() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("windlass-controller"))
        .find(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from("target/debug/windlass-controller"))
}
