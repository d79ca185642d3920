package policies_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
)

// writers are a server and people who may write policies and exceptions, and
// approve for all signers.
type writers struct{ *fixture }

// writer is a person with a login of its own, and the warnings that it got.
type writer struct {
	writers
	api dynamic.Interface

	mu   sync.Mutex
	told []string
}

func (w *writer) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, text)
}

// warnings returns the warnings since the last call.
func (w *writer) warnings() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := strings.Join(w.told, "\n")
	w.told = nil
	return told
}

func startWriters(t *testing.T) writers {
	t.Helper()
	s := writers{start(t)}
	name := metav1.ObjectMeta{Name: "writers-of-policies"}
	s.create(&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, Verbs: []string{"approve"}},
	}})
	s.create(&rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:authenticated"}}})
	may := authorizationv1.ResourceAttributes{Verb: "approve", Group: certificatesv1.GroupName, Resource: "signers", Name: "example.com/any"}
	s.server.UntilAllowed(t, "anybody", []string{"system:authenticated"}, may)
	return s
}

// in returns the server for a part of the test.
func (s writers) in(t *testing.T) writers {
	part := *s.fixture
	part.T = t
	return writers{&part}
}

func (s writers) of(cfg *rest.Config) *writer {
	s.Helper()
	w := &writer{writers: s}
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = w
	var err error
	if w.api, err = dynamic.NewForConfig(cfg); err != nil {
		s.Fatal(err)
	}
	return w
}

func (s writers) person(name string, groups ...string) *writer {
	s.Helper()
	return s.of(s.server.Login(s.T, name, groups...))
}

// object returns an object written in YAML.
func object(kind, name, spec string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(spec), &o.Object); err != nil {
		panic(err)
	}
	o.Object = map[string]any{"spec": o.Object}
	o.SetAPIVersion(v1alpha1.GroupVersion.String())
	o.SetKind(kind)
	o.SetName(name)
	return o
}

func resource(o *unstructured.Unstructured) schema.GroupVersionResource {
	if o.GetKind() == "CertificatePolicyException" {
		return policies.ExceptionsResource
	}
	return policies.PoliciesResource
}

func (w *writer) get(o *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	stored, err := w.api.Resource(resource(o)).Get(w.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return stored
}

func field(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, append([]string{"spec"}, path...)...)
	return fmt.Sprint(value)
}

func proposals(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[v1alpha1.AnnotationProposals]
}

// The ways in which people write an object.
var writes = map[string]func(w *writer, o *unstructured.Unstructured) error{
	"PUT": func(w *writer, o *unstructured.Unstructured) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error { // the status is written, too
			stored := w.get(o)
			stored.Object["spec"] = o.Object["spec"]
			_, err := w.api.Resource(resource(o)).Update(w.Context(), stored, metav1.UpdateOptions{})
			return err
		})
	},
	"merge patch": func(w *writer, o *unstructured.Unstructured) error {
		return w.patch(types.MergePatchType, o, map[string]any{"spec": o.Object["spec"]})
	},
	"JSON patch": func(w *writer, o *unstructured.Unstructured) error {
		return w.patch(types.JSONPatchType, o, []any{map[string]any{"op": "replace", "path": "/spec", "value": o.Object["spec"]}})
	},
	"server-side apply": func(w *writer, o *unstructured.Unstructured) error {
		_, err := w.api.Resource(resource(o)).Apply(w.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: fmt.Sprintf("%p", w), Force: true})
		return err
	},
}

func (w *writer) patch(kind types.PatchType, o *unstructured.Unstructured, patch any, subresources ...string) error {
	w.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		w.Fatal(err)
	}
	_, err = w.api.Resource(resource(o)).Patch(w.Context(), o.GetName(), kind, data, metav1.PatchOptions{}, subresources...)
	return err
}

// guarded returns the specification of a protected policy for a signer of its own.
func guarded(name string, count int) string {
	return fmt.Sprintf(`{effect: Allow, mode: Enforce, match: {kinds: [CertificateSigningRequest], signers: [%s.example.com/x]}, certificate: {usages: {allowed: [digital signature]}},
  approval: {mode: People, people: {count: %d}}, protection: {people: {count: 2, from: [{groups: [pki], count: 1}, {groups: [security], count: 1}]}}}`, name, count)
}

const allowsToo = `{effect: Allow, mode: Enforce, match: {signers: ["beside.example.com/*"]}, certificate: {usages: {allowed: [digital signature]}}}`

// protect creates the protected policy, and waits until it is in force.
func (w *writer) protect(name string) *unstructured.Unstructured {
	w.Helper()
	o := object("CertificatePolicy", name, guarded(name, 3))
	if _, err := w.api.Resource(policies.PoliciesResource).Create(w.Context(), o, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	if stored := w.get(o); field(stored, "approval", "people", "count") != "3" || proposals(stored) != "" {
		w.Fatalf("a new protected policy is not in force: %v", stored.Object)
	}
	w.ready(&v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}})
	w.warnings() // its signer is of others
	return o
}

func TestProtection(t *testing.T) {
	s := startWriters(t)
	t.Run("two people change a policy", s.twoPeopleChangeAPolicy)
	t.Run("protection cannot be bypassed", s.protectionCannotBeBypassed)
	t.Run("what stands beside a protected policy", s.whatStandsBesideAProtectedPolicy)
	t.Run("last writers at once", s.lastWritersAtOnce)
}

// twoPeopleChangeAPolicy: however they write it, one person's change is a
// proposal, and the other's is applied.
func (s writers) twoPeopleChangeAPolicy(t *testing.T) {
	s = s.in(t)
	alice, bob := s.person("alice", "pki"), s.person("bob", "security")
	carol, robot := s.person("carol", "pki"), s.of(s.server.As(t, "system:serviceaccount:default:robot", "system:serviceaccounts", "pki"))
	acting := s.of(s.server.As(t, "bob", "security"))
	count := func(o *unstructured.Unstructured) string { return field(alice.get(o), "approval", "people", "count") }
	for way, write := range writes {
		name := strings.ToLower(strings.ReplaceAll(way, " ", "-"))
		o := alice.protect(name)
		weaker := object("CertificatePolicy", name, guarded(name, 2))
		if err := write(alice, weaker); err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		const want = "recorded as approval 1 of 2; 1 more of security is needed\nthe policy is not changed yet; others agree by writing the same"
		if told := alice.warnings(); told != "certificate policy "+name+": "+want || count(o) != "3" || alice.get(o).GetGeneration() != 1 {
			t.Errorf("%s: the count is %s, told %q", way, count(o), told)
		}
		if err := write(alice, weaker); err != nil || !strings.Contains(alice.warnings(), "you have approved already; 1 more of security is needed") {
			t.Errorf("%s: the same person again: %v", way, err)
		}
		for who, w := range map[string]*writer{"carol": carol, "robot": robot, "somebody who acts as bob": acting} {
			if err := write(w, weaker); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %s is not refused: %v", way, who, err)
			}
		}
		if count(o) != "3" {
			t.Errorf("%s: one person was enough", way)
		}
		if err := write(bob, object("CertificatePolicy", name, guarded(name, 5))); err != nil || count(o) != "3" {
			t.Errorf("%s: another change: %v", way, err)
		}
		if err := write(bob, weaker); err != nil || count(o) != "2" || proposals(alice.get(o)) != "" {
			t.Errorf("%s: two people are not enough: %v, %v", way, err, alice.get(o).Object)
		}
		if err := write(alice, object("CertificatePolicy", name, guarded(name, 3))); err != nil || count(o) != "2" {
			t.Errorf("%s: one person changed it back: %v", way, err)
		}
		alice.warnings()
	}
}

// protectionCannotBeBypassed: one person changes nothing in other ways either.
func (s writers) protectionCannotBeBypassed(t *testing.T) {
	s = s.in(t)
	alice, bob, mallory := s.person("alice", "pki"), s.person("bob", "security"), s.person("mallory", "pki")
	o := alice.protect("ca")
	weaker := object("CertificatePolicy", "ca", guarded("ca", 2))
	if err := writes["PUT"](alice, weaker); err != nil {
		t.Fatal(err)
	}
	sealed := proposals(alice.get(o))
	annotate := func(w *writer, value any) error {
		return w.patch(types.MergePatchType, o, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationProposals: value}}})
	}
	for reason, attempt := range map[string]func() error{
		"the annotation is removed":  func() error { return annotate(mallory, nil) },
		"the annotation is replaced": func() error { return annotate(mallory, "[]") },
		"it says who has agreed": func() error {
			return mallory.patch(types.MergePatchType, o, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationAgreed: sealed}}})
		},
		"another name is in it": func() error { return annotate(mallory, strings.Replace(sealed, "v1", "v2", 1)) },
		"the annotation is changed through the status": func() error {
			return mallory.patch(types.MergePatchType, o, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationProposals: nil}}, "spec": weaker.Object["spec"]}, "status")
		},
		"labels are free": func() error {
			return mallory.patch(types.MergePatchType, o, map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}}})
		},
	} {
		if err := attempt(); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
		if stored := alice.get(o); proposals(stored) != sealed || stored.GetAnnotations()[v1alpha1.AnnotationAgreed] != "" || field(stored, "approval", "people", "count") != "3" {
			t.Errorf("%s: %v", reason, stored.Object)
		}
	}
	if alice.get(o).GetLabels()["team"] != "a" {
		t.Error("the label is not there")
	}
	api := mallory.api.Resource(policies.PoliciesResource)
	for reason, attempt := range map[string]func() error{
		"deletion":        func() error { return api.Delete(t.Context(), "ca", metav1.DeleteOptions{}) },
		"deletion of all": func() error { return api.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}) },
		"deletion by dependence": func() error {
			return api.Delete(t.Context(), "ca", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
		},
	} {
		if err := attempt(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is protected and can be deleted only in the mode Off") {
			t.Errorf("%s: %v", reason, err)
		}
	}
	mallory.warnings()
	// A person has one proposal: the last one must not be the one that is agreed to below.
	changes := map[string]string{
		"without protection": strings.Split(guarded("ca", 3), ", protection")[0] + "}",
		"off":                strings.Replace(guarded("ca", 3), "Enforce", "'Off'", 1),
		"in the shadow":      strings.Replace(guarded("ca", 3), "Enforce", "Shadow", 1),
		"with a message":     strings.Replace(guarded("ca", 3), "{effect", "{message: hi, effect", 1),
	}
	for _, reason := range slices.Sorted(maps.Keys(changes)) {
		spec, before := changes[reason], field(alice.get(o))
		if err := writes["PUT"](mallory, object("CertificatePolicy", "ca", spec)); err != nil || field(alice.get(o)) != before || !strings.Contains(mallory.warnings(), "recorded as approval 1 of 2") {
			t.Errorf("%s: %v %s", reason, err, field(alice.get(o)))
		}
	}
	before := proposals(alice.get(o))
	dry := []byte(`{"spec":{"message":"dry"}}`)
	if _, err := bob.api.Resource(policies.PoliciesResource).Patch(t.Context(), "ca", types.MergePatchType, dry, metav1.PatchOptions{DryRun: []string{"All"}}); err != nil ||
		proposals(alice.get(o)) != before || !strings.Contains(bob.warnings(), "recorded as approval 1 of 2; 1 more of pki is needed") {
		t.Errorf("a dry run: %v", err)
	}
	bad := object("CertificatePolicy", "ca", strings.Replace(guarded("ca", 3), "digital signature", "no usage", 1))
	if err := writes["PUT"](mallory, bad); !apierrors.IsInvalid(err) {
		t.Errorf("a proposal that is not valid: %v", err)
	}

	// Two people switch it off; then it can be deleted.
	off := object("CertificatePolicy", "ca", strings.Replace(guarded("ca", 3), "Enforce", "'Off'", 1))
	for _, w := range []*writer{alice, bob} {
		if err := writes["merge patch"](w, off); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Delete(t.Context(), "ca", metav1.DeleteOptions{}); err != nil {
		t.Errorf("it cannot be deleted in the mode Off: %v", err)
	}
}

// whatStandsBesideAProtectedPolicy: an Allow for the same signers, and an
// exception, are stored without an effect until two people have written them.
func (s writers) whatStandsBesideAProtectedPolicy(t *testing.T) {
	s = s.in(t)
	alice, bob := s.person("alice", "pki"), s.person("bob", "security")
	alice.protect("beside")
	exception := fmt.Sprintf(`{policies: [beside], items: [certificate.keys], reason: moving, notAfter: "%s", match: {signers: ["*"], requesters: {users: [web]}}}`,
		time.Now().UTC().Add(24*time.Hour).Format(time.RFC3339))
	for _, tc := range []struct {
		kind, spec, field string
	}{{"CertificatePolicy", allowsToo, "mode"}, {"CertificatePolicyException", exception, "notAfter"}} {
		for way, write := range writes {
			name := "beside-" + strings.ToLower(strings.ReplaceAll(way, " ", "-"))
			o := object(tc.kind, name, tc.spec)
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationProposals: `["x"]`})
			create := func() {
				t.Helper()
				var err error
				if way == "server-side apply" {
					err = write(alice, o)
				} else {
					_, err = alice.api.Resource(resource(o)).Create(t.Context(), o, metav1.CreateOptions{})
				}
				if told := alice.warnings(); err != nil || !strings.Contains(told, "certificate policy beside: recorded as approval 1 of 2; 1 more of security is needed") {
					t.Fatalf("%s by %s: %v, told %q", tc.kind, way, err, told)
				}
			}
			create()
			inert := alice.get(o)
			if value := field(inert, tc.field); value == field(o, tc.field) || strings.Contains(proposals(inert), `"x"`) {
				t.Errorf("%s by %s is in force: %v", tc.kind, way, inert.Object)
			}
			o.SetAnnotations(nil)
			if err := write(alice, o); err != nil || field(alice.get(o), tc.field) == field(o, tc.field) {
				t.Errorf("%s by %s: one person has put it into force: %v", tc.kind, way, err)
			}
			// Deleted and created again, it is as new.
			if err := alice.api.Resource(resource(o)).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationProposals: proposals(inert)})
			create()
			o.SetAnnotations(nil)
			if err := write(bob, o); err != nil || field(alice.get(o), tc.field) != field(o, tc.field) || proposals(alice.get(o)) != "" {
				t.Errorf("%s by %s: two people have not put it into force: %v, %v", tc.kind, way, err, alice.get(o).Object)
			}
			if err := alice.api.Resource(resource(o)).Delete(t.Context(), name, metav1.DeleteOptions{}); (err == nil) != (tc.kind == "CertificatePolicy") {
				t.Errorf("%s by %s: deletion by one person: %v", tc.kind, way, err)
			}
			alice.warnings()
		}
	}
}

// lastWritersAtOnce: whatever comes first, no proposal is lost, and none counts
// twice.
func (s writers) lastWritersAtOnce(t *testing.T) {
	s = s.in(t)
	alice, dave, bob, erin := s.person("alice", "pki"), s.person("dave", "pki"), s.person("bob", "security"), s.person("erin", "security")
	for round := range 5 {
		name := fmt.Sprintf("ca-%d", round)
		o := alice.protect(name)
		weaker := object("CertificatePolicy", name, guarded(name, 2))
		var all sync.WaitGroup
		for _, w := range []*writer{alice, dave} {
			all.Go(func() { _ = writes["merge patch"](w, weaker) })
		}
		all.Wait()
		if stored := alice.get(o); field(stored, "approval", "people", "count") != "3" || proposals(stored) == "" {
			t.Fatalf("two people of one group were enough, or none was recorded: %v", stored.Object)
		}
		for _, w := range []*writer{bob, erin} {
			all.Go(func() { _ = writes["merge patch"](w, weaker) })
		}
		all.Wait()
		if stored := alice.get(o); field(stored, "approval", "people", "count") != "2" || proposals(stored) != "" {
			t.Errorf("two people were not enough: %v", stored.Object)
		}
	}
}
