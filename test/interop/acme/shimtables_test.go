package acme

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/policy/shim"
)

// shimPackage is cert-manager's package whose tests are replayed.
const shimPackage = "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim"

// shimCase is a case of cert-manager's tests of its shims, and what they do.
type shimCase struct {
	Name, Type       string
	Object           json.RawMessage
	Stored           []*cmv1.Certificate
	Options          controller.IngressShimOptions
	Created, Updated []*cmv1.Certificate
	Deleted          []string
	Warnings         []string
	Error            string
}

// recordShimCases runs cert-manager's tests of its shims in a copy of their package, with a
// recorder. The module of the copy has a path in cert-manager, whose internal packages it needs.
func recordShimCases(t *testing.T) (cases []shimCase) {
	t.Helper()
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Env = append(os.Environ(), "SHIM_CASES="+filepath.Join(dir, "cases.json"))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	place := func(from, to string, changes ...string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) > 0 && strings.Count(string(text), changes[0]) != 1 {
			t.Fatalf("%s does not have %q once", from, changes[0])
		}
		if err := os.WriteFile(filepath.Join(dir, to), []byte(strings.NewReplacer(changes...).Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := run("go", "list", "-f", "{{.Dir}}", shimPackage)
	place("go.mod", "go.mod")
	place("go.sum", "go.sum")
	run("go", "-C", dir, "mod", "edit", "-module=github.com/cert-manager/cert-manager/recorded", "-droprequire=github.com/certplane/certplane", "-dropreplace=github.com/certplane/certplane")
	place("testdata/shimrecorder.go", "recorder.go")
	place(filepath.Join(folder, "helper.go"), "helper.go")
	place(filepath.Join(folder, "sync.go"), "sync.go", "func SyncFnFor(", "func recordedSyncFnFor(")
	const call = "err := sync(t.Context(), test.IngressLike)"
	place(filepath.Join(folder, "sync_test.go"), "sync_test.go", call, "recordedName = t.Name()\n"+call)
	run("go", "-C", dir, "test", "-mod=mod", "-count=1", "-vet=off", "-run", "^TestSync$", ".")
	data, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var c shimCase
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

// owner returns the object of a case.
func (c shimCase) owner(t *testing.T) (metav1.Object, schema.GroupVersionKind) {
	t.Helper()
	for _, known := range []struct {
		object metav1.Object
		kind   schema.GroupVersionKind
	}{
		{&networkingv1.Ingress{}, shim.IngressKind}, {&gatewayv1.Gateway{}, shim.GatewayKind}, {&gatewayv1.ListenerSet{}, shim.ListenerSetKind},
	} {
		if strings.HasSuffix(c.Type, "."+known.kind.Kind) {
			if err := json.Unmarshal(c.Object, known.object); err != nil {
				t.Fatal(err)
			}
			return known.object, known.kind
		}
	}
	t.Fatalf("a case has a %s", c.Type)
	return nil, schema.GroupVersionKind{}
}

// shimResult is what a shim does with an object.
type shimResult struct {
	Created, Updated []*cmv1.Certificate
	Deleted          []string
	Warnings         []string
}

// ours returns what certplane decides in a case.
func (c shimCase) ours(t *testing.T) (r shimResult) {
	t.Helper()
	o, kind := c.owner(t)
	settings := shim.Settings{
		IngressSettings: shim.IngressSettings{
			DefaultIssuerName: c.Options.DefaultIssuerName, DefaultIssuerKind: c.Options.DefaultIssuerKind, DefaultIssuerGroup: c.Options.DefaultIssuerGroup,
			AutoAnnotations: c.Options.DefaultAutoCertificateAnnotations, CopiedAnnotations: c.Options.ExtraCertificateAnnotations,
		},
		GatewaySettings: shim.GatewaySettings{ExtraProtocols: c.Options.GatewayAPIExtraProtocols.UnsortedList(), ListenerSets: true, AllowedListeners: shim.Ignore},
	}
	wish := settings.Of(o, kind)
	for _, problem := range wish.Problems {
		r.Warnings = append(r.Warnings, "BadConfig "+problem)
	}
	if wish.Void {
		return r
	}
	for _, wanted := range wish.Certificates {
		i := slices.IndexFunc(c.Stored, func(crt *cmv1.Certificate) bool { return crt.Name == wanted.Name })
		switch {
		case i < 0:
			r.Created = append(r.Created, wanted)
		case metav1.IsControlledBy(c.Stored[i], o):
			if changed := shim.Changed(c.Stored[i], wanted); changed != nil {
				r.Updated = append(r.Updated, changed)
			}
		}
	}
	for _, crt := range c.Stored {
		if metav1.IsControlledBy(crt, o) && !slices.Contains(shim.SecretNames(o), crt.Spec.SecretName) {
			r.Deleted = append(r.Deleted, crt.Name)
		}
	}
	return r
}

// theirs returns what cert-manager did. It reports errors only in its log.
func (c shimCase) theirs() shimResult {
	r := shimResult{Created: c.Created, Updated: c.Updated, Deleted: c.Deleted, Warnings: c.Warnings}
	if c.Error != "" {
		r.Warnings = append(r.Warnings, "BadConfig "+c.Error)
	}
	return r
}

// normal brings results into a form in which equal ones are equal.
func (r shimResult) normal() shimResult {
	for _, crt := range slices.Concat(r.Created, r.Updated) {
		delete(crt.Annotations, shim.Mark)
		if len(crt.Annotations) == 0 {
			crt.Annotations = nil
		}
		if len(crt.Labels) == 0 {
			crt.Labels = nil
		}
	}
	slices.Sort(r.Deleted)
	return r
}

// parentsOfStored are cases in which cert-manager does not write the parents of challenges into
// a Certificate that exists, because it sets them in another copy of it.
var parentsOfStored = []string{
	"gateway-shim/should_update_a_certificate_if_an_incorrect_Certificate_exists",
	"gateway-shim/should_update_an_existing_Certificate_resource_with_new_labels_if_they_do_not_match_those_specified_on_the_Gateway",
	"gateway-shim/should_update_a_Certificate_if_it_contains_a_Common_Name_that_is_not_defined_on_the_Gateway_annotations",
}

// cert-manager's own tests of its shims have the same results with certplane, except for those
// that are listed.
func TestShimTables(t *testing.T) {
	cases := recordShimCases(t)
	t.Logf("cert-manager's tests have %d cases", len(cases))
	if len(cases) < 80 {
		t.Error("that is too few")
	}
	for _, c := range cases {
		name := strings.TrimPrefix(c.Name, "TestSync/")
		t.Run(name, func(t *testing.T) {
			theirs, ours := c.theirs(), c.ours(t)
			if slices.Contains(parentsOfStored, name) {
				for _, crt := range ours.Updated {
					if !strings.HasPrefix(crt.Annotations["acme.cert-manager.io/http01-parentrefname"], "gateway-name") {
						t.Errorf("the annotations are %v", crt.Annotations)
					}
					delete(crt.Annotations, "acme.cert-manager.io/http01-parentrefkind")
					delete(crt.Annotations, "acme.cert-manager.io/http01-parentrefname")
				}
			}
			if diff := cmp.Diff(theirs.normal(), ours.normal()); diff != "" {
				t.Errorf("cert-manager (-) and certplane (+) differ:\n%s", diff)
			}
		})
	}
}
