// Package archtest holds the import rule of ARCHITECTURE.md.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/certplane/certplane/"

// rule says what the packages under a folder must not import.
type rule struct {
	from      string // a folder of this module
	forbidden []string
	// unless are allowed folders inside a forbidden one.
	unless []string
	// indirect says that the rule also holds for all packages of this module
	// through which the folder's packages could break it.
	indirect bool
	reason   string
}

var rules = []rule{
	{
		from:      "internal/pki",
		forbidden: []string{"github.com/", "k8s.io/", "sigs.k8s.io/", "go.etcd.io/"},
		unless:    []string{module + "internal/pki"},
		reason:    "X.509 facts rest on the standard library alone",
	},
	{
		from:      "api/signing",
		forbidden: []string{"github.com/", "k8s.io/", "sigs.k8s.io/"},
		reason:    "whoever serves the protocol needs nothing of ours besides",
	},
	{
		from:      "internal/signer",
		forbidden: []string{module},
		unless: []string{
			module + "internal/signer", module + "internal/pki", module + "internal/collector", module + "api/signing",
			module + "internal/policy/profile", module + "internal/policy/request", module + "api/certplane", module + "internal/backoff", module + "internal/follow", module + "internal/httpsclient", module + "internal/linklocal", module + "internal/notify", module + "internal/sigv4",
		},
		reason: "signing needs certificates, nothing around them",
	},
	{
		from:      "internal/answer",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless: []string{
			module + "internal/answer", module + "internal/api", module + "internal/issueoncreate", module + "internal/note", module + "internal/pki", module + "internal/signer",
		},
		reason: "controllers of this program and of others give answers in the same way",
	},
	{
		from:      "internal/issuing",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless: []string{
			module + "internal/issuing", module + "internal/signer", module + "internal/pki", module + "internal/policy/request",
			module + "internal/api/certmanager", module + "internal/issueoncreate", module + "internal/note", module + "internal/notify", module + "internal/secretwatch", module + "internal/worker",
			module + "internal/answer", module + "internal/policy/requests", // issuing/engine
			module + "internal/acme", module + "internal/api/rfc8555", module + "internal/policy/order", module + "internal/backoff", module + "api/certplane", // issuing/acme
		},
		reason: "a type of issuers knows how to sign, not which controller asks it",
	},
	{
		from:      "internal/acme",
		forbidden: []string{module, "k8s.io/apiserver/", "github.com/aws/", "github.com/Azure/", "google.golang.org/api"},
		unless: []string{
			module + "internal/acme", module + "internal/api", module + "internal/backoff", module + "internal/collector", module + "internal/connections", module + "internal/duration",
			module + "internal/follow", module + "internal/httpsclient", module + "internal/linklocal", module + "internal/notify", module + "internal/pki", module + "internal/sigv4",
		},
		reason: "ACME servers and DNS providers are reached by plain HTTP, without a controller and without the libraries of clouds",
	},
	{
		from:      "internal/acmeserver",
		forbidden: []string{module},
		unless: []string{
			module + "internal/acmeserver", module + "api/certplane", module + "internal/api/rfc8555", module + "internal/policy/acmeorder", module + "internal/pki",
			module + "internal/backoff", module + "internal/collector", module + "internal/keylock",
			module + "internal/policy/names",                                                                     // acmeserver/identifier
			module + "internal/acme/dnsquery", module + "internal/policy/acmeaddress", module + "internal/share", // acmeserver/validate
			module + "internal/connections", module + "internal/follow", module + "internal/notify", // acmeserver/listener
		},
		reason: "what strangers reach knows neither the API server nor what approves and signs",
	},
	{
		from:      "internal/acmeserver/jws",
		forbidden: []string{module, "github.com/", "k8s.io/", "sigs.k8s.io/", "go.etcd.io/"},
		unless:    []string{module + "internal/acmeserver/jws", module + "internal/api/rfc8555", module + "internal/pki", "github.com/go-jose/go-jose/v4", "sigs.k8s.io/json"},
		reason:    "what strangers send is parsed and verified without a store, a clock and an API",
	},
	{
		from:      "internal/acmeserver/nonce",
		forbidden: []string{module, "github.com/", "k8s.io/", "sigs.k8s.io/", "go.etcd.io/", "golang.org/x/"},
		reason:    "nonces are checked before anything else, by the standard library alone",
	},
	{
		from:      "internal/acmeserver/peers",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/acmeserver/nonce", module + "internal/pki"},
		reason:    "what processes ask of each other is one nonce: nothing of accounts and orders",
	},
	{
		from:      "internal/acmeserver/identifier",
		forbidden: []string{module, "github.com/", "k8s.io/", "sigs.k8s.io/", "go.etcd.io/"},
		unless:    []string{module + "internal/api/rfc8555", module + "internal/policy/names"},
		reason:    "how names and addresses are spelled does not depend on who may have them",
	},
	{
		from:      "internal/acmeserver/validate",
		forbidden: []string{module},
		unless: []string{
			module + "internal/acmeserver/validate", module + "internal/acme/dnsquery", module + "internal/api/rfc8555", module + "internal/policy/acmeaddress", module + "internal/share",
		},
		reason: "what connects to addresses that strangers choose knows a challenge and rules, nothing else",
	},
	{
		from:      "internal/acmeserver/validate",
		forbidden: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/apiserver"},
		unless:    []string{"k8s.io/client-go/applyconfigurations"}, // types
		indirect:  true,
		reason:    "what connects to addresses that strangers choose has no client of an API, not by way of other packages either",
	},
	{
		from:      "internal/policy",
		forbidden: []string{"crypto/rand", "math/rand", "math/rand/v2", "context"},
		reason:    "decisions follow from their arguments alone",
	},
	{
		from: "internal/policy",
		forbidden: []string{
			"os", "os/exec", "io/fs", "net/http", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/utils/clock", "go.etcd.io",
		},
		unless:   []string{"k8s.io/client-go/applyconfigurations"}, // types
		indirect: true,
		reason:   "decisions know no files, no clock and no API, not by way of other packages either",
	},
	{
		from: "internal/controller",
		forbidden: []string{
			module + "internal/approving", module + "internal/authn", module + "internal/authz", module + "internal/admission", module + "internal/registry",
			module + "internal/apiserver", module + "internal/server", module + "internal/cluster", module + "internal/agent", module + "internal/cli",
		},
		indirect: true,
		reason:   "controllers are clients of any API, and know nothing of the server that runs them",
	},
	{
		from: "internal/approving",
		forbidden: []string{
			module + "internal/authn", module + "internal/authz", module + "internal/admission", module + "internal/registry",
			module + "internal/apiserver", module + "internal/server", module + "internal/cluster", module + "internal/agent", module + "internal/cli",
			module + "internal/controller",
		},
		indirect: true,
		reason:   "approvers are controllers: clients of any API, which know nothing of the server that runs them, and of no other controller",
	},
	{
		from:      "internal/approving",
		forbidden: []string{module + "internal/etcd", "k8s.io/apiserver/"},
		reason:    "approvers reach objects through clients only, so each can run anywhere",
	},
	{
		from:      "internal/issueoncreate",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/issueoncreate"},
		reason:    "the API server and its controllers meet there, and neither knows the other",
	},
	{
		from:      "internal/ledger",
		forbidden: []string{module},
		unless:    []string{module + "internal/ledger", module + "internal/pki", module + "internal/collector"},
		reason:    "the account of certificates knows nothing of the requests",
	},
	{
		from:      "internal/keystore",
		forbidden: []string{module},
		unless:    []string{module + "internal/keystore", module + "internal/pki", module + "internal/collector", module + "internal/follow", module + "internal/notify"},
		reason:    "key custody knows keys, nobody who uses them",
	},
	{
		from:      "internal/policy",
		forbidden: []string{module},
		unless:    []string{module + "internal/policy", module + "api/certplane", module + "internal/api", module + "internal/backoff", module + "internal/duration", module + "internal/linklocal/ranges", module + "internal/pki"},
		reason:    "the same decision is made by a controller and explained by a client",
	},
	{
		from:      "internal/policy/acmeorder",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless: []string{
			module + "api/certplane", module + "internal/api/certificates", module + "internal/api/certmanager", module + "internal/api/rfc8555", module + "internal/duration", module + "internal/pki",
			module + "internal/policy/acmeorder", module + "internal/policy/expression", module + "internal/policy/names", module + "internal/policy/request",
		},
		reason: "an ACME order becomes a request like any other: what signers and policies say of that is not known before",
	},
	{
		from:      "internal/frontend",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/frontend", module + "internal/rights", module + "internal/admissionwebhook", module + "internal/policies", module + "internal/acme/solver", module + "internal/acmeserver", module + "internal/inprocess", module + "api/certplane"},
		reason:    "each process serves what is in one list, with or without an API server in it",
	},
	{
		from:      "internal/acmeserver/listener",
		forbidden: []string{module, "k8s.io/apiserver/", "sigs.k8s.io/controller-runtime"},
		unless:    []string{module + "internal/connections", module + "internal/follow", module + "internal/notify", module + "internal/pki"},
		reason:    "what strangers connect to has no way to the API of its own",
	},
	{
		from:      "internal/rights",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/rights"},
		reason:    "the table is read by the server, by what runs in clusters and by clients",
	},
	{
		from:      "internal/encryption",
		forbidden: []string{module, "k8s.io/"},
		unless:    []string{module + "internal/encryption"},
		reason:    "the server and its clients change the same file of keys",
	},
	{
		from:      "internal/api",
		forbidden: []string{module},
		unless:    []string{module + "internal/api", module + "internal/pki", module + "api/inventory"},
		reason:    "the shape of the API does not depend on who serves it",
	},
	{
		from:      "internal/inventory",
		forbidden: []string{module},
		unless:    []string{module + "api/certplane", module + "api/inventory", module + "internal/api", module + "internal/collector", module + "internal/pki", module + "internal/steadyclock"},
		reason:    "what was issued is recorded without knowing who approves and signs",
	},
	{
		from: "internal/registry",
		forbidden: []string{
			module + "internal/admission", module + "internal/apiserver", module + "internal/approving", module + "internal/controller",
			module + "internal/server", module + "internal/signer", module + "internal/keystore", module + "internal/cli",
		},
		reason: "resources are stored without knowing who acts on them",
	},
	{
		from:      "internal/admission",
		forbidden: []string{module},
		unless:    []string{module + "internal/admission", module + "api/certplane", module + "internal/api", module + "internal/policies", module + "internal/policy", module + "internal/pki", module + "internal/rights"},
		reason:    "the same checks must run in a webhook in somebody else's cluster",
	},
	{
		from: "internal/apiserver",
		forbidden: []string{
			module + "internal/approving", module + "internal/controller", module + "internal/signer", module + "internal/keystore",
			module + "internal/server", module + "internal/cli", module + "internal/etcd",
		},
		reason: "the API server works without any controller and with any etcd",
	},
	{
		from: "internal/controller",
		forbidden: []string{
			module + "internal/registry", module + "internal/apiserver", module + "internal/admission",
			module + "internal/server", module + "internal/etcd", module + "internal/cli", "k8s.io/apiserver/",
		},
		reason: "controllers reach objects through clients only, so each can run anywhere",
	},
	{
		from: "internal/controllermanager",
		forbidden: []string{
			module + "internal/registry", module + "internal/apiserver", module + "internal/admission",
			module + "internal/server", module + "internal/etcd", module + "internal/cli", "k8s.io/apiserver/",
		},
		reason: "the same controllers must run in somebody else's cluster",
	},
	{
		from: "internal/cluster",
		forbidden: []string{
			module + "internal/registry", module + "internal/apiserver", module + "internal/admission",
			module + "internal/server", module + "internal/etcd", module + "internal/cli", "k8s.io/apiserver/",
		},
		reason: "what runs in somebody else's cluster has no server in it",
	},
	{
		from:      "internal/admissionwebhook",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/admissionwebhook", module + "api/certplane", module + "internal/admission/certmanager", module + "internal/admission/certplane", module + "internal/admission/certpolicy", module + "internal/api", module + "internal/policies", module + "internal/policy", module + "internal/collector", module + "internal/connections", module + "internal/share"},
		reason:    "a webhook has the checks of the server, and no server",
	},
	{
		from:      "internal/admission/certmanager",
		forbidden: []string{"k8s.io/apiserver/"},
		reason:    "the webhook in somebody else's cluster asks it too",
	},
	{
		from:      "internal/admission/certplane",
		forbidden: []string{"k8s.io/apiserver/"},
		reason:    "the webhook in somebody else's cluster asks it too",
	},
	{
		from:      "internal/admission/certpolicy",
		forbidden: []string{"k8s.io/apiserver/"},
		reason:    "the webhook in somebody else's cluster asks it too",
	},
	{
		from:      "internal/agent",
		forbidden: []string{module, "k8s.io/apiserver/", "go.etcd.io/", "sigs.k8s.io/controller-runtime"},
		unless: []string{
			module + "internal/agent", module + "internal/policy", module + "internal/api", module + "internal/pki",
			module + "internal/atomicfile", module + "internal/backoff", module + "internal/buildinfo", module + "internal/configfile", module + "internal/duration", module + "internal/logging",
		},
		reason: "an agent is a client on somebody's host: what it can do, any node can do",
	},
	{
		from:      "issuer",
		forbidden: []string{module, "k8s.io/apiserver/", "k8s.io/apiextensions-apiserver/", "go.etcd.io/"},
		unless: []string{
			module + "issuer", module + "internal/answer", module + "internal/api", module + "internal/backoff", module + "internal/issuing", module + "internal/note",
			module + "internal/pki", module + "internal/policy/request", module + "internal/policy/requests", module + "internal/signer", module + "internal/worker",
		},
		reason: "what others build into their programs brings no server, and no cloud, along",
	},
	{
		from:      "internal/account",
		forbidden: []string{module},
		unless:    []string{module + "internal/account"},
		reason:    "acting as service accounts needs an API, nothing of ours",
	},
	{
		from:      "internal/configfile",
		forbidden: []string{module},
		unless:    []string{module + "internal/configfile", module + "internal/duration"},
		reason:    "files are read for whoever has a configuration",
	},
	{
		from:      "internal/explain",
		forbidden: []string{module, "k8s.io/apiserver/", "go.etcd.io/"},
		unless: []string{
			module + "internal/explain", module + "api/certplane", module + "api/inventory", module + "internal/api", module + "internal/cli/print", module + "internal/duration", module + "internal/inprocess",
			module + "internal/issuing", module + "internal/pki", module + "internal/policies", module + "internal/policy", module + "internal/rights", module + "internal/signer",
		},
		reason: "a command line, a server and a console explain the same",
	},
	{
		from: "internal/cli",
		forbidden: []string{
			module + "internal/server", module + "internal/apiserver", module + "internal/registry",
			module + "internal/admission", module + "internal/authn", module + "internal/authz",
			module + "internal/approving", module + "internal/controller", module + "internal/controllermanager", module + "internal/etcd", "k8s.io/apiserver/", "go.etcd.io/",
		},
		reason: "a client is a client: what it can do, any client can do",
	},
	{
		from: "internal/console",
		forbidden: []string{
			module + "internal/server", module + "internal/apiserver", module + "internal/registry",
			module + "internal/admission", module + "internal/authn", module + "internal/authz",
			module + "internal/approving", module + "internal/controller", module + "internal/controllermanager", module + "internal/etcd", "k8s.io/apiserver/", "go.etcd.io/",
		},
		reason: "the console shows what the command line shows, and has no other way to the API than any client",
	},
	{
		from:      "",
		forbidden: []string{"k8s.io/kubernetes"},
		reason:    "built on the ecosystem's libraries, not on Kubernetes itself",
	},
}

func TestImports(t *testing.T) {
	packages := listPackages(t)
	for _, rule := range rules {
		for _, pkg := range rule.reach(packages) {
			for _, imported := range rule.broken(pkg) {
				t.Errorf("%s imports %s: %s: %s", pkg.ImportPath, imported, rule.from, rule.reason)
			}
		}
	}
}

// Packages for use by other programs do not import the server, directly or
// through other packages of this module. They run on the engine of the built-in
// issuers, without the types of these.
func TestSDKBringsNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"issuer").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range strings.Fields(string(out)) {
		if underAny(imported, []string{"k8s.io/apiserver", "k8s.io/apiextensions-apiserver/pkg/apiserver", "go.etcd.io", "github.com/google/cel-go"}) {
			t.Errorf("the package issuer depends on %s", imported)
		}
		if strings.HasPrefix(imported, module+"internal/issuing/") && imported != module+"internal/issuing/engine" {
			t.Errorf("the package issuer depends on %s, a type of the built-in issuers", imported)
		}
	}
}

// Controllers are independent of each other: none imports another.
func TestControllersDoNotImportEachOther(t *testing.T) {
	const controllers = module + "internal/controller/"
	for _, pkg := range listPackages(t) {
		own, isController := strings.CutPrefix(pkg.ImportPath, controllers)
		if !isController {
			continue
		}
		own, _, _ = strings.Cut(own, "/")
		for _, imported := range pkg.Imports {
			if strings.HasPrefix(imported, controllers) && !under(imported, controllers+own) {
				t.Errorf("%s imports %s: each controller can move to a process of its own", pkg.ImportPath, imported)
			}
		}
	}
}

// A rule about a folder that has moved away would have no effect.
func TestRulesNameExistingFolders(t *testing.T) {
	packages := listPackages(t)
	for _, rule := range rules {
		found := false
		for _, pkg := range packages {
			found = found || under(pkg.ImportPath, strings.TrimSuffix(module+rule.from, "/"))
		}
		if !found {
			t.Errorf("there is no package under %s", rule.from)
		}
	}
}

// reach returns the packages for which r holds.
func (r rule) reach(packages []goPackage) []goPackage {
	reached := map[string]bool{}
	for _, pkg := range packages {
		reached[pkg.ImportPath] = under(pkg.ImportPath, strings.TrimSuffix(module+r.from, "/"))
	}
	for grown := r.indirect; grown; {
		grown = false
		for _, pkg := range packages {
			for _, imported := range pkg.Imports {
				if known, ours := reached[imported]; reached[pkg.ImportPath] && ours && !known {
					reached[imported], grown = true, true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(packages), func(pkg goPackage) bool { return !reached[pkg.ImportPath] })
}

// broken returns the imports of pkg that r forbids.
func (r rule) broken(pkg goPackage) []string {
	var broken []string
	for _, imported := range pkg.Imports {
		if underAny(imported, r.forbidden) && !underAny(imported, r.unless) {
			broken = append(broken, imported)
		}
	}
	return broken
}

func underAny(path string, folders []string) bool {
	for _, folder := range folders {
		if under(path, folder) {
			return true
		}
	}
	return false
}

func under(path, folder string) bool {
	folder = strings.TrimSuffix(folder, "/")
	return path == folder || strings.HasPrefix(path, folder+"/")
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

// listPackages asks the go command for this module's packages. Imports of
// test files are not among them: tests may use the whole server.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing packages: %v\n%s", err, stderr.String())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg goPackage
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, pkg)
	}
}
