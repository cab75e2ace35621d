package fleeting

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
	artefacts "gitlab.com/gitlab-org/fleeting/fleeting-artifact/pkg/client"
	"gitlab.com/gitlab-org/fleeting/fleeting-artifact/pkg/installer"
	"gitlab.com/gitlab-org/fleeting/fleeting-artifact/pkg/releaser"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// A registry in this process, under a name: GitLab's installer makes a folder of it, and refuses one with a port.
const repository = "registry.windlass.test/ci/scaleway"

// Sends every request to the registry in this process.
type redirected struct {
	to   *url.URL
	next http.RoundTripper
}

func (r redirected) RoundTrip(request *http.Request) (*http.Response, error) {
	changed := request.Clone(request.Context())
	changed.URL.Scheme, changed.URL.Host = r.to.Scheme, r.to.Host
	return r.next.RoundTrip(changed)
}

func startRegistry(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	before := remote.DefaultTransport
	remote.DefaultTransport = redirected{to: address, next: server.Client().Transport}
	t.Cleanup(func() {
		remote.DefaultTransport = before
		server.Close()
	})
}

// The tree that `just dist` lays out: that of WINDLASS_DIST, else one with the plugin under test for this machine.
func distribution(t *testing.T) string {
	t.Helper()
	if folder := os.Getenv("WINDLASS_DIST"); folder != "" {
		absolute, err := filepath.Abs(folder)
		require.NoError(t, err)
		return absolute
	}
	folder := filepath.Join(t.TempDir(), "dist")
	place := filepath.Join(folder, runtime.GOOS, runtime.GOARCH)
	require.NoError(t, os.MkdirAll(place, 0o755))
	// By a child: a child of another test would inherit this process' handle, and while it has that, the plugin cannot
	// be run (ETXTBSY).
	require.NoError(t, exec.Command("cp", program(t, "WINDLASS_FLEETING_PLUGIN"), filepath.Join(place, "plugin")).Run())
	return folder
}

// GitLab's own tool makes an artefact of the tree. With WINDLASS_FLEETING_ARTEFACT the one of `just release` is
// published instead, from its OCI layout, as it would be.
func release(t *testing.T, dist, version string) {
	t.Helper()
	if folder := os.Getenv("WINDLASS_FLEETING_ARTEFACT"); folder != "" {
		publish(t, folder, version)
		return
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	digest, err := releaser.Release(t.Context(), repository+":"+version, releaser.WithDirectory(dist),
		releaser.WithLogger(quiet))
	require.NoError(t, err)
	require.Contains(t, digest, repository+"@sha256:")
}

func publish(t *testing.T, folder, version string) {
	t.Helper()
	kept, err := layout.ImageIndexFromPath(folder)
	require.NoError(t, err)
	manifest, err := kept.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	artefact, err := kept.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	reference, err := name.ParseReference(repository + ":" + version)
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(reference, artefact))
	publisher, err := artefacts.New()
	require.NoError(t, err)
	_, err = publisher.UpdateAliases(t.Context(), repository, false)
	require.NoError(t, err)
}

// What `gitlab-runner fleeting install` does, and what the runner finds when it starts.
func install(t *testing.T, constraint, folder string) string {
	t.Helper()
	require.NoError(t, installer.Install(t.Context(), repository+":"+constraint, installer.WithDirectory(folder)))
	return found(t, constraint, folder)
}

func found(t *testing.T, constraint, folder string) string {
	t.Helper()
	path, err := installer.LookPath(repository+":"+constraint, folder)
	require.NoError(t, err)
	return path
}

// GitLab's own tool makes an artefact of the tree, GitLab's own installer puts it where the runner looks, by each way
// to name a version, and what lies there is a plugin that starts.
func TestAReleaseIsInstalledByGitLabsOwnInstallerAndStarts(t *testing.T) {
	cloud := startSimulator(t)
	dist := distribution(t)
	startRegistry(t)
	folder := t.TempDir()
	release(t, dist, "0.1.0")
	_, err := installer.LookPath(repository+":0.1", folder)
	require.ErrorIs(t, err, installer.ErrPluginNotFound, "nothing is installed yet")
	first := filepath.Join(folder, repository, "0.1.0", "plugin")
	for _, constraint := range []string{"latest", "0", "0.1", "0.1.0"} {
		require.Equal(t, first, install(t, constraint, folder), constraint)
	}

	quiet := hclog.NewNullLogger()
	process, err := fleeting.RunPlugin(first, encoded(t, cloud.config(t, nil)), fleeting.WithPluginLogger(quiet))
	require.NoError(t, err)
	defer process.Kill()
	info, err := process.InstanceGroup().Init(t.Context(), quiet, provider.Settings{})
	require.NoError(t, err)
	require.Equal(t, "scaleway/fr-par-1/ci", info.ID)
}

// An upgrade is another version beside the first; the version that config.toml names is the one that starts, also when
// it is the older one again.
func TestAnUpgradeStandsBesideTheOldVersionAndADowngradeFindsIt(t *testing.T) {
	dist := distribution(t)
	startRegistry(t)
	folder := t.TempDir()
	release(t, dist, "0.1.0")
	first := install(t, "0.1", folder)
	release(t, dist, "0.1.1")
	require.Equal(t, first, found(t, "0.1", folder), "a release alone changes nothing here")
	second := install(t, "0.1", folder)
	require.Equal(t, filepath.Join(folder, repository, "0.1.1", "plugin"), second)
	require.Equal(t, first, found(t, "0.1.0", folder))
}

// The artefact is a container image, too: its program copies itself where the installer would have put it.
func TestTheProgramInstallsItselfWhereTheInstallerLooks(t *testing.T) {
	t.Parallel()
	plugin := filepath.Join(distribution(t), runtime.GOOS, runtime.GOARCH, "plugin")
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), plugin, "bootstrap", repository)
	command.Env = []string{"FLEETING_PLUGIN_PATH=" + folder}
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err)
	path, err := installer.LookPath(repository+":latest", folder)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(output)), filepath.Dir(path))
}
