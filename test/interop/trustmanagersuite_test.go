package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// trustManagerSuite is the folder in which trust-manager's own tests are compiled.
const trustManagerSuite = "trustmanager/integration"

// trustManagerConfig is the part of a configuration that trust-manager's tests expect.
const trustManagerConfig = "trustManager: {trustNamespace: trust-manager, defaultPackage: %s}\n"

// trust-manager's own integration tests of Bundles, of the controller and of the validation, pass
// with certplane in its place: for a kube-apiserver, and in "certplane serve".
func TestTrustManagersOwnTests(t *testing.T) {
	t.Run("cluster", func(t *testing.T) {
		d := startDropIn(t, everythingOfCertManager+",bundles")
		d.roots = filepath.Join(filepath.Dir(d.config), "roots.json")
		newRandomBundles(t, 1).defaultPackage(t, d.roots)
		write(t, d.config, "apiVersion: config.certplane.dev/v1alpha1\nkind: ControllersConfiguration\n"+fmt.Sprintf(trustManagerConfig, d.roots))
		d.kubectl(t, "create", "namespace", "trust-manager")
		d.begin(t, "certplane")
		d.takeOver(t)
		passTrustManagersTests(t, d.admin, d.roots)
	})
	t.Run("serve", func(t *testing.T) {
		files := shortTempDir(t)
		config, roots := filepath.Join(files, "server.yaml"), filepath.Join(files, "roots.json")
		newRandomBundles(t, 1).defaultPackage(t, roots)
		write(t, config, "apiVersion: config.certplane.dev/v1alpha1\nkind: ServerConfiguration\n"+fmt.Sprintf(trustManagerConfig, roots))
		server, dir := startCertplane(t, certplane(t), "--config", config)
		server.do(t, call{method: "POST", path: "/api/v1/namespaces", body: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "trust-manager"},
		}})
		passTrustManagersTests(t, filepath.Join(dir, "data/admin.kubeconfig"), roots)
	})
}

// specsRun is the line in which the tests tell how many of them ran.
var specsRun = regexp.MustCompile(`Ran (\d+) of (\d+) Specs`)

// passTrustManagersTests runs trust-manager's tests. roots is the file with the default CAs,
// which they write.
func passTrustManagersTests(t *testing.T, kubeconfig, roots string) {
	t.Helper()
	folder, err := filepath.Abs(trustManagerSuite)
	if err != nil {
		t.Fatal(err)
	}
	added := map[string]string{}
	for _, name := range []string{"controller_test.go", "validation_test.go", "suite_test.go"} {
		added[filepath.Join(folder, name)] = filepath.Join(moduleFolder(t, "trustmanager", "github.com/cert-manager/trust-manager"), "test/integration/bundle", name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": added})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	write(t, path, string(overlay))
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-timeout=30m", "-v", "-overlay", path, ".", "-ginkgo.no-color")
	command.Dir, command.Env = folder, append(os.Environ(), "KUBECONFIG="+kubeconfig, "DEFAULT_PACKAGE="+roots)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("the tests failed: %v\n%s", err, output)
	}
	ran := specsRun.FindSubmatch(output)
	if ran == nil {
		t.Fatalf("no test ran:\n%s", output)
	}
	t.Logf("%s", ran[0])
	if count, err := strconv.Atoi(string(ran[1])); err != nil || count < 31+45 || string(ran[1]) != string(ran[2]) {
		t.Errorf("%s: there are 31 tests of the controller, and more than 45 of the validation", ran[0])
	}
}
