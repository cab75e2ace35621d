package fleeting

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting"
)

// The page's commands as they stand: `w ...`, `m | ...`, `l | ...` and `windlass ...`.
var command = regexp.MustCompile("`((?:w |windlass |m \\\\?\\||l \\\\?\\|)[^`]*)`")

// What the page has people look for in the log: `l | grep 'phrase'` and "`phrase` in the log".
var logged = regexp.MustCompile("`l \\| grep '([^']+)'`|`([^`]+)` in\\s+the\\s+log")

// Metrics by name.
var metric = regexp.MustCompile(`windlass_[a-z_]+`)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/gitlab-runner-troubleshooting.md")
	require.NoError(t, err)
	return string(text)
}

// All that the programs can say: their sources.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("../../host", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".rs" {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	require.NoError(t, err)
	// A message may go on behind a backslash at the end of a line.
	return regexp.MustCompile(`\\\n\s*`).ReplaceAllString(all.String(), "")
}

func TestThePageForThreeInTheMorningNamesOnlyMetricsAndLogLinesThatThereAre(t *testing.T) {
	t.Parallel()
	text, said := page(t), sources(t)
	names := metric.FindAllString(text, -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		base := strings.TrimSuffix(name, "_sum")
		require.Contains(t, said, base, "a metric that the page names")
	}
	phrases := logged.FindAllStringSubmatch(text, -1)
	require.GreaterOrEqual(t, len(phrases), 5)
	for _, phrase := range phrases {
		// What GitLab's own code says is not ours to prove.
		if words := phrase[1] + phrase[2]; words != "increasing instances" && words != "ready command" {
			require.Contains(t, said, words, "a line of the log that the page names")
		}
	}
}

// Every command of the page, in the page's order, beside a plugin that has failed, has run and runs; those that remove
// something answer the question that they ask.
func TestEveryCommandOfThePageForThreeInTheMorningRuns(t *testing.T) {
	t.Parallel()
	windlass := program(t, "WINDLASS_COMMAND_LINE")
	policies := program(t, "WINDLASS_POLICIES")
	cloud := startSimulator(t, "--time-scale", "100")
	metrics := servedMetrics(t)
	config := cloud.config(t, metrics.configured(nil))
	log, written := keptLog()
	cloud.fault(fault{Method: "POST", Path: "/instance/v1/zones/*/servers", Kind: "out-of-stock", Effect: "before"})
	runner, err := tryRunnerWithLog(t, log, config, fleeting.WithMaxSize(3))
	require.NoError(t, err)
	runner.Request(1)
	eventually(t, "a creation fails, and creations pause", func() bool {
		runner.demand(1)
		return strings.Contains(written.String(), "nothing is created for now")
	})
	cloud.forgetFaults()
	eventually(t, "an instance runs after the pause", func() bool {
		runner.demand(1)
		return runner.Capacity().settled(1)
	})

	folder := t.TempDir()
	state := filepath.Join(config["state_dir"].(string), "fleeting", "ci")
	file := filepath.Join(folder, "log")
	run := func(line string) (string, error) {
		require.NoError(t, os.WriteFile(file, []byte(written.String()), 0o600))
		prelude := fmt.Sprintf("w() { %q --state-dir %q \"$@\"; }\nwindlass() { %q \"$@\"; }\n", windlass, state, windlass) +
			fmt.Sprintf("m() { curl --silent --show-error --fail --unix-socket %q http://plugin/metrics; }\n", metrics.socket) +
			fmt.Sprintf("l() { cat %q; }\n", file)
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		shell := exec.CommandContext(ctx, "bash", "-c", prelude+line)
		shell.Dir = folder
		shell.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "SCW_API_URL=" + cloud.url, "SCW_SECRET_KEY=" + secretKey,
			"SCW_DEFAULT_PROJECT_ID=" + project, "SCW_DEFAULT_ZONE=fr-par-1",
		}
		output, err := shell.CombinedOutput()
		return string(output), err
	}
	first := func(list string) string {
		output, err := run(list + " --output name | head -n 1")
		require.NoError(t, err, output)
		require.NotEmpty(t, strings.TrimSpace(output), list)
		return strings.TrimSpace(output)
	}
	operation, decision := first("w operation list"), first("w decision list")
	policy := filepath.Join(policies, "grace-for-stopped.wasm")

	commands := command.FindAllStringSubmatch(page(t), -1)
	require.GreaterOrEqual(t, len(commands), 25)
	for _, found := range commands {
		line := strings.ReplaceAll(strings.Join(strings.Fields(found[1]), " "), `\|`, "|")
		removes := strings.HasPrefix(line, "w server delete") || strings.HasPrefix(line, "w sweep") &&
			!strings.Contains(line, "--dry-run")
		if strings.HasPrefix(line, "w server list") {
			// From here on the page is about a runner that was stopped.
			runner.kill()
		}
		line = strings.NewReplacer("decision show ID", "decision show "+decision, " ID", " "+operation, "NAME", operation,
			"FILE", policy).Replace(line)
		if removes {
			line += " --yes"
		}
		if strings.Contains(line, "| grep") {
			// What is not there is not found, and the page says what it means.
			line += "; test ${PIPESTATUS[0]} = 0 -a ${PIPESTATUS[-1]} -le 1"
		}
		output, err := run(line)
		require.NoError(t, err, "%s\n%s", line, output)
	}
	require.True(t, cloud.empty(), "the last of them removes the group's servers: %v", cloud.resources())
	paused, err := run("l | grep 'nothing is created for now'")
	require.NoError(t, err)
	require.Contains(t, paused, "rest_seconds")
}
