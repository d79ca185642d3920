// Package archtest checks the import rules between packages, and other rules about code.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/certplane/certplane/"

// rule lists imports that are forbidden in the packages under a folder.
type rule struct {
	from      string // a folder of this module
	forbidden []string
	// unless are allowed folders inside a forbidden one.
	unless []string
	// except are folders under from that have a separate rule.
	except []string
	// indirect extends the rule to all packages of this module that the folder's
	// packages import, directly or not.
	indirect bool
	reason   string
}

var rules = []rule{
	{
		from:      "internal/pki",
		forbidden: []string{"github.com/", "k8s.io/", "sigs.k8s.io/", "go.etcd.io/"},
		unless:    []string{module + "internal/pki"},
		reason:    "X.509 code uses only the standard library",
	},
	{
		from:      "api/signing",
		forbidden: []string{"github.com/", "k8s.io/", "sigs.k8s.io/"},
		reason:    "a server of the protocol must not need another package of this module",
	},
	{
		from:      "internal/issuing/signer",
		forbidden: []string{module},
		unless: []string{
			module + "internal/issuing/signer", module + "internal/pki", module + "internal/process/collector", module + "api/signing",
			module + "internal/policy/profile", module + "internal/policy/request", module + "api/certplane", module + "internal/process/backoff", module + "internal/process/filewatch", module + "internal/process/httpsclient", module + "internal/process/linklocal", module + "internal/process/notify", module + "internal/process/sigv4",
		},
		reason: "signing depends on certificates only, not on the objects that carry them",
	},
	{
		from:      "internal/issuing/outcome",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless: []string{
			module + "internal/issuing/outcome", module + "internal/api", module + "internal/inprocess/issueoncreate", module + "internal/process/eventtext", module + "internal/pki", module + "internal/issuing/signer", module + "internal/policy/request",
		},
		reason: "controllers of this program and of other programs answer requests through the same code",
	},
	{
		from:      "internal/issuing",
		except:    []string{module + "internal/issuing/certmetrics", module + "internal/issuing/outcome", module + "internal/issuing/roots", module + "internal/issuing/signer", module + "internal/issuing/signlog"},
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless: []string{
			module + "internal/issuing", module + "internal/issuing/signer", module + "internal/pki", module + "internal/policy/request",
			module + "internal/api/certmanager", module + "internal/inprocess/issueoncreate", module + "internal/process/eventtext", module + "internal/process/notify", module + "internal/process/changewatch", module + "internal/process/worker",
			module + "internal/issuing/outcome", module + "internal/policy/requests", // issuing/engine
			module + "internal/acme", module + "internal/api/rfc8555", module + "internal/policy/order", module + "internal/process/backoff", module + "api/certplane", // issuing/acme
		},
		reason: "a type of issuers implements signing and does not depend on the controller that calls it",
	},
	{
		from:      "internal/acme",
		except:    []string{module + "internal/acme/acmeserver"},
		forbidden: []string{module, "k8s.io/apiserver/", "github.com/aws/", "github.com/Azure/", "google.golang.org/api"},
		unless: []string{
			module + "internal/acme", module + "internal/api", module + "internal/process/backoff", module + "internal/process/collector", module + "internal/tenant/connections", module + "internal/process/duration",
			module + "internal/process/filewatch", module + "internal/process/httpsclient", module + "internal/process/linklocal", module + "internal/process/notify", module + "internal/pki", module + "internal/process/sigv4",
		},
		reason: "ACME servers and DNS providers are called by plain HTTP, without a controller and without the libraries of clouds",
	},
	{
		from:      "internal/acme/acmeserver",
		forbidden: []string{module},
		unless: []string{
			module + "internal/acme/acmeserver", module + "api/certplane", module + "internal/api/rfc8555", module + "internal/policy/acmeorder", module + "internal/pki",
			module + "internal/process/backoff", module + "internal/process/collector", module + "internal/process/keylock",
			module + "internal/policy/names",                                                                                // acmeserver/identifier
			module + "internal/acme/dnsquery", module + "internal/policy/acmeaddress", module + "internal/tenant/fairshare", // acmeserver/validate
			module + "internal/tenant/connections", module + "internal/process/filewatch", module + "internal/process/notify", // acmeserver/listener
		},
		reason: "code that strangers can reach depends neither on the API server nor on approvers and signers",
	},
	{
		from:      "internal/acme/acmeserver/jws",
		forbidden: []string{module, "github.com/", "k8s.io/", "sigs.k8s.io/", "go.etcd.io/"},
		unless:    []string{module + "internal/acme/acmeserver/jws", module + "internal/api/rfc8555", module + "internal/pki", "github.com/go-jose/go-jose/v4", "sigs.k8s.io/json"},
		reason:    "messages of strangers are parsed and verified without a store, a clock or an API",
	},
	{
		from:      "internal/acme/acmeserver/nonce",
		forbidden: []string{module, "github.com/", "k8s.io/", "sigs.k8s.io/", "go.etcd.io/", "golang.org/x/"},
		reason:    "nonces are checked before anything else, so this uses only the standard library",
	},
	{
		from:      "internal/acme/acmeserver/peers",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/acme/acmeserver/nonce", module + "internal/pki"},
		reason:    "processes exchange nonces only, no accounts or orders",
	},
	{
		from:      "internal/acme/acmeserver/identifier",
		forbidden: []string{module, "github.com/", "k8s.io/", "sigs.k8s.io/", "go.etcd.io/"},
		unless:    []string{module + "internal/api/rfc8555", module + "internal/policy/names"},
		reason:    "the spelling of names and addresses does not depend on who may have them",
	},
	{
		from:      "internal/acme/acmeserver/validate",
		forbidden: []string{module},
		unless: []string{
			module + "internal/acme/acmeserver/validate", module + "internal/acme/dnsquery", module + "internal/api/rfc8555", module + "internal/policy/acmeaddress", module + "internal/tenant/fairshare",
		},
		reason: "code that connects to addresses that strangers choose uses only a challenge and rules",
	},
	{
		from:      "internal/acme/acmeserver/validate",
		forbidden: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/apiserver"},
		unless:    []string{"k8s.io/client-go/applyconfigurations"}, // types
		indirect:  true,
		reason:    "code that connects to addresses that strangers choose has no API client, not even through other packages",
	},
	{
		from:      "internal/policy",
		forbidden: []string{"crypto/rand", "math/rand", "math/rand/v2", "context"},
		reason:    "decisions depend on their arguments only",
	},
	{
		from: "internal/policy",
		forbidden: []string{
			"os", "os/exec", "io/fs", "net/http", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/utils/clock", "go.etcd.io",
		},
		unless:   []string{"k8s.io/client-go/applyconfigurations"}, // types
		indirect: true,
		reason:   "decisions use no files, no clock and no API, not even through other packages",
	},
	{
		from: "internal/controller",
		forbidden: []string{
			module + "internal/apiserver/authn", module + "internal/apiserver/authz", module + "internal/admission", module + "internal/apiserver/registry",
			module + "internal/apiserver", module + "internal/run/server", module + "internal/run/cluster", module + "internal/agent", module + "internal/client/cli",
		},
		indirect: true,
		reason:   "controllers are clients of any API and do not depend on the server that runs them",
	},
	{
		from: "internal/controller/approving",
		forbidden: []string{
			module + "internal/apiserver/authn", module + "internal/apiserver/authz", module + "internal/admission", module + "internal/apiserver/registry",
			module + "internal/apiserver", module + "internal/run/server", module + "internal/run/cluster", module + "internal/agent", module + "internal/client/cli",
			module + "internal/controller",
		},
		indirect: true,
		reason:   "approvers are controllers: clients of any API that depend neither on the server that runs them nor on other controllers",
	},
	{
		from:      "internal/controller/approving",
		forbidden: []string{module + "internal/store/etcd", "k8s.io/apiserver/"},
		reason:    "approvers reach objects through clients only, so each can run anywhere",
	},
	{
		from:      "internal/inprocess/issueoncreate",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/inprocess/issueoncreate"},
		reason:    "the API server and its controllers both use this package, so that neither depends on the other",
	},
	{
		from:      "internal/issuing/signlog",
		forbidden: []string{module},
		unless:    []string{module + "internal/issuing/signlog", module + "internal/pki", module + "internal/process/collector"},
		reason:    "the log of signed certificates does not depend on requests",
	},
	{
		from:      "internal/keystore",
		forbidden: []string{module},
		unless:    []string{module + "internal/keystore", module + "internal/pki", module + "internal/process/collector", module + "internal/process/filewatch", module + "internal/process/notify"},
		reason:    "key custody does not depend on the users of keys",
	},
	{
		from:      "internal/policy",
		forbidden: []string{module},
		unless:    []string{module + "internal/policy", module + "api/certplane", module + "internal/api", module + "internal/process/backoff", module + "internal/process/duration", module + "internal/process/linklocal/ranges", module + "internal/pki", module + "internal/revocation"},
		reason:    "a controller makes and a client explains the same decision",
	},
	{
		from:      "internal/policy/acmeorder",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless: []string{
			module + "api/certplane", module + "internal/api/certificates", module + "internal/api/certmanager", module + "internal/api/rfc8555", module + "internal/process/duration", module + "internal/pki",
			module + "internal/policy/acmeorder", module + "internal/policy/expression", module + "internal/policy/names", module + "internal/policy/request",
		},
		reason: "an ACME order becomes a request like any other, so signers and policies decide only afterwards",
	},
	{
		from:      "internal/frontend",
		except:    []string{module + "internal/frontend/admissionwebhook", module + "internal/frontend/crlserver", module + "internal/frontend/revocationwebhook"},
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/frontend", module + "internal/rights", module + "internal/frontend/admissionwebhook", module + "internal/policies", module + "internal/acme/solver", module + "internal/acme/acmeserver", module + "internal/inprocess", module + "internal/issuing/roots", module + "api/certplane"},
		reason:    "every process uses the same list of front ends, with or without an API server",
	},
	{
		from:      "internal/acme/acmeserver/listener",
		forbidden: []string{module, "k8s.io/apiserver/", "sigs.k8s.io/controller-runtime"},
		unless:    []string{module + "internal/tenant/connections", module + "internal/process/filewatch", module + "internal/process/notify", module + "internal/pki"},
		reason:    "the public listener has no API client",
	},
	{
		from:      "internal/rights",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/rights"},
		reason:    "the server, programs in clusters and clients read the same table",
	},
	{
		from:      "internal/store/encryption",
		forbidden: []string{module, "k8s.io/"},
		unless:    []string{module + "internal/store/encryption"},
		reason:    "the server and its clients change the same file of keys",
	},
	{
		from:      "internal/api",
		forbidden: []string{module},
		unless:    []string{module + "internal/api", module + "internal/pki", module + "api/certplane", module + "api/inventory"},
		reason:    "the types of the API do not depend on the program that serves them",
	},
	{
		from:      "internal/revocation",
		forbidden: []string{module, "k8s.io/apiserver/", "go.etcd.io/"},
		unless:    []string{module + "api/inventory", module + "internal/pki"},
		reason:    "the server, its store, a webhook and agents look up revoked certificates in the same way",
	},
	{
		from:      "internal/inventory",
		forbidden: []string{module},
		unless:    []string{module + "api/certplane", module + "api/inventory", module + "api/records", module + "internal/api", module + "internal/process/collector", module + "internal/pki", module + "internal/process/steadyclock", module + "internal/revocation"},
		reason:    "records of certificates do not depend on approvers and signers",
	},
	{
		from: "internal/apiserver/registry",
		forbidden: []string{
			module + "internal/admission", module + "internal/apiserver", module + "internal/controller/approving", module + "internal/controller",
			module + "internal/run/server", module + "internal/issuing/signer", module + "internal/keystore", module + "internal/client/cli",
		},
		unless: []string{module + "internal/apiserver/authn", module + "internal/apiserver/authz", module + "internal/apiserver/registry"},
		reason: "storing resources does not depend on the controllers that act on them",
	},
	{
		from:      "internal/admission",
		forbidden: []string{module},
		unless:    []string{module + "internal/admission", module + "api/certplane", module + "internal/api", module + "internal/policies", module + "internal/policy", module + "internal/pki", module + "internal/rights"},
		reason:    "the same checks must run in a webhook for another API server",
	},
	{
		from: "internal/apiserver",
		forbidden: []string{
			module + "internal/controller/approving", module + "internal/controller", module + "internal/issuing/signer", module + "internal/keystore",
			module + "internal/run/server", module + "internal/client/cli", module + "internal/store/etcd",
		},
		reason: "the API server works without any controller and with any etcd",
	},
	{
		from: "internal/controller",
		forbidden: []string{
			module + "internal/apiserver/registry", module + "internal/apiserver", module + "internal/admission",
			module + "internal/run/server", module + "internal/store/etcd", module + "internal/client/cli", "k8s.io/apiserver/",
		},
		reason: "controllers reach objects through clients only, so each can run anywhere",
	},
	{
		from: "internal/run/controllermanager",
		forbidden: []string{
			module + "internal/apiserver/registry", module + "internal/apiserver", module + "internal/admission",
			module + "internal/run/server", module + "internal/store/etcd", module + "internal/client/cli", "k8s.io/apiserver/",
		},
		reason: "the same controllers must run with another API server",
	},
	{
		from: "internal/run/cluster",
		forbidden: []string{
			module + "internal/apiserver/registry", module + "internal/apiserver", module + "internal/admission",
			module + "internal/run/server", module + "internal/store/etcd", module + "internal/client/cli", "k8s.io/apiserver/",
		},
		reason: "a program for clusters with another API server must not contain one",
	},
	{
		from:      "internal/frontend/admissionwebhook",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/frontend/admissionwebhook", module + "api/certplane", module + "internal/admission/certmanager", module + "internal/admission/certplane", module + "internal/admission/certpolicy", module + "internal/api", module + "internal/policies", module + "internal/policy", module + "internal/process/collector", module + "internal/tenant/connections", module + "internal/tenant/fairshare"},
		reason:    "a webhook contains the checks of the server, but no server",
	},
	{
		from:      "internal/frontend/crlserver",
		forbidden: []string{module, "k8s.io/apiserver/", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "go.etcd.io/"},
		unless:    []string{module + "internal/frontend/crlserver", module + "internal/revocation", module + "internal/tenant/connections", module + "internal/process/collector"},
		reason:    "a listener for everybody can do nothing but show lists",
	},
	{
		from:      "internal/frontend/revocationwebhook",
		forbidden: []string{module, "k8s.io/apiserver/"},
		unless:    []string{module + "internal/revocation", module + "internal/process/collector"},
		reason:    "what answers for every request of a kube-apiserver looks up fingerprints and does nothing else",
	},
	{
		from:      "internal/admission/certmanager",
		forbidden: []string{"k8s.io/apiserver/"},
		reason:    "the webhook for another API server uses it also",
	},
	{
		from:      "internal/admission/certplane",
		forbidden: []string{"k8s.io/apiserver/"},
		reason:    "the webhook for another API server uses it also",
	},
	{
		from:      "internal/admission/certpolicy",
		forbidden: []string{"k8s.io/apiserver/"},
		reason:    "the webhook for another API server uses it also",
	},
	{
		from:      "internal/agent",
		forbidden: []string{module, "k8s.io/apiserver/", "go.etcd.io/", "sigs.k8s.io/controller-runtime"},
		unless: []string{
			module + "internal/agent", module + "internal/policy", module + "internal/api", module + "internal/pki", module + "api/inventory", module + "internal/revocation",
			module + "internal/process/atomicfile", module + "internal/process/backoff", module + "internal/process/buildinfo", module + "internal/process/configfile", module + "internal/process/duration", module + "internal/process/filelock", module + "internal/process/logging",
		},
		reason: "an agent is an ordinary client on a host: it can do nothing that another node cannot do",
	},
	{
		from:      "issuer",
		forbidden: []string{module, "k8s.io/apiserver/", "k8s.io/apiextensions-apiserver/", "go.etcd.io/"},
		unless: []string{
			module + "issuer", module + "internal/issuing/outcome", module + "internal/api", module + "internal/process/backoff", module + "internal/issuing", module + "internal/process/eventtext",
			module + "internal/pki", module + "internal/policy/request", module + "internal/policy/requests", module + "internal/issuing/signer", module + "internal/process/worker",
		},
		reason: "packages for other programs must not add a server or cloud libraries to them",
	},
	{
		from:      "internal/process/account",
		forbidden: []string{module},
		unless:    []string{module + "internal/process/account"},
		reason:    "acting as service accounts needs an API, but no other package of this module",
	},
	{
		from:      "internal/process/configfile",
		forbidden: []string{module},
		unless:    []string{module + "internal/process/configfile", module + "internal/process/duration"},
		reason:    "every program with a configuration reads its files through this package",
	},
	{
		from:      "internal/client/explain",
		forbidden: []string{module, "k8s.io/apiserver/", "go.etcd.io/"},
		unless: []string{
			module + "internal/client/explain", module + "api/certplane", module + "api/inventory", module + "api/records", module + "internal/api", module + "internal/client/cli/print", module + "internal/process/duration", module + "internal/inprocess",
			module + "internal/issuing", module + "internal/pki", module + "internal/policies", module + "internal/policy", module + "internal/rights", module + "internal/issuing/signer",
		},
		reason: "the command line, the server and the console give the same explanations",
	},
	{
		from: "internal/client/cli",
		forbidden: []string{
			module + "internal/run/server", module + "internal/apiserver", module + "internal/apiserver/registry",
			module + "internal/admission", module + "internal/apiserver/authn", module + "internal/apiserver/authz",
			module + "internal/controller/approving", module + "internal/controller", module + "internal/run/controllermanager", module + "internal/store/etcd", "k8s.io/apiserver/", "go.etcd.io/",
		},
		reason: "this is an ordinary client: it can do nothing that another client cannot do",
	},
	{
		from: "internal/client/console",
		forbidden: []string{
			module + "internal/run/server", module + "internal/apiserver", module + "internal/apiserver/registry",
			module + "internal/admission", module + "internal/apiserver/authn", module + "internal/apiserver/authz",
			module + "internal/controller/approving", module + "internal/controller", module + "internal/run/controllermanager", module + "internal/store/etcd", "k8s.io/apiserver/", "go.etcd.io/",
		},
		reason: "the console shows what the command line shows, and uses the API like any client",
	},
	{
		from:      "internal/process",
		forbidden: []string{module},
		unless:    []string{module + "internal/process", module + "internal/pki"},
		reason:    "helpers of every part cannot depend on one",
	},
	{
		from:      "internal/inprocess",
		forbidden: []string{module},
		unless:    []string{module + "internal/inprocess"},
		reason:    "the API server and its clients meet there, and neither knows the other",
	},
	{
		from:      "internal/store",
		forbidden: []string{module},
		unless:    []string{module + "internal/store", module + "internal/pki", module + "internal/process", module + "internal/tenant"},
		reason:    "the store does not depend on what is stored",
	},
	{
		from:      "internal/tenant",
		forbidden: []string{module},
		unless:    []string{module + "internal/tenant", module + "api/certplane", module + "internal/api"},
		reason:    "shares are the same for everything that is shared",
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
// through other packages of this module. They use the engine of the built-in
// issuers, but not the types of these issuers.
func TestSDKBringsNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"issuer").Output()
	if err != nil {
		t.Fatal(err)
	}
	engine := []string{module + "internal/issuing/engine", module + "internal/issuing/outcome", module + "internal/issuing/signer"}
	for _, imported := range strings.Fields(string(out)) {
		if underAny(imported, []string{"k8s.io/apiserver", "k8s.io/apiextensions-apiserver/pkg/apiserver", "go.etcd.io", "github.com/google/cel-go"}) {
			t.Errorf("the package issuer depends on %s", imported)
		}
		if strings.HasPrefix(imported, module+"internal/issuing/") && !underAny(imported, engine) {
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
				t.Errorf("%s imports %s: each controller must be able to run in a separate process", pkg.ImportPath, imported)
			}
		}
	}
}

// The folders under internal are the parts of the program. Each can be read and replaced
// alone if none of them imports another that imports it.
func TestFoldersFormNoCycle(t *testing.T) {
	const internal = module + "internal/"
	folder := func(path string) string {
		inside, ok := strings.CutPrefix(path, internal)
		if !ok {
			return ""
		}
		first, _, _ := strings.Cut(inside, "/")
		return first
	}
	imports := map[string]map[string]bool{}
	for _, pkg := range listPackages(t) {
		from := folder(pkg.ImportPath)
		if imports[from] == nil {
			imports[from] = map[string]bool{}
		}
		for _, imported := range pkg.Imports {
			if to := folder(imported); to != "" && to != from {
				imports[from][to] = true
			}
		}
	}
	// Remove folders that import only removed folders until a cycle or nothing remains.
	for gone := true; gone; {
		gone = false
		for from, to := range imports {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(to)), func(f string) bool { return imports[f] != nil }) {
				delete(imports, from)
				gone = true
			}
		}
	}
	if len(imports) > 0 {
		t.Errorf("folders under internal import each other: %q contain a cycle", slices.Sorted(maps.Keys(imports)))
	}
}

// A rule for a folder that was moved would have no effect.
func TestRulesNameExistingFolders(t *testing.T) {
	packages := listPackages(t)
	for _, rule := range rules {
		found := false
		for _, pkg := range packages {
			found = found || under(pkg.ImportPath, strings.TrimSuffix(module+rule.from, "/"))
		}
		if !found {
			t.Errorf("no package is under %s", rule.from)
		}
	}
}

// reach returns the packages for which r holds.
func (r rule) reach(packages []goPackage) []goPackage {
	reached := map[string]bool{}
	for _, pkg := range packages {
		reached[pkg.ImportPath] = under(pkg.ImportPath, strings.TrimSuffix(module+r.from, "/")) && !underAny(pkg.ImportPath, r.except)
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
