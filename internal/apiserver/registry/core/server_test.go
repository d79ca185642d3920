package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

// common is the server of the tests that use only their own namespace.
var common apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &common) }

// world is a running server and its administrator, who works in a namespace of
// the test's.
type world struct {
	*apitest.Server
	kubernetes.Interface
	core      corev1client.CoreV1Interface
	namespace string
}

func start(t *testing.T) world {
	t.Helper()
	return startOn(t, common.Start(t))
}

func startOn(t *testing.T, s *apitest.Server) world {
	t.Helper()
	admin := apitest.Client(t, s.Admin(t))
	return world{Server: s, Interface: admin, core: admin.CoreV1(), namespace: apitest.OwnNamespace(t, admin)}
}

var (
	create = metav1.CreateOptions{}
	update = metav1.UpdateOptions{}
	get    = metav1.GetOptions{}
	remove = metav1.DeleteOptions{}
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// causes returns the fields of an error, with their messages.
func causes(err error) string {
	var status apierrors.APIStatus
	if err == nil || !asStatus(err, &status) {
		return fmt.Sprint(err)
	}
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		return fmt.Sprintf("%d %s", status.Status().Code, status.Status().Message)
	}
	var out []string
	for _, cause := range details.Causes {
		out = append(out, fmt.Sprintf("%d %s: %s", status.Status().Code, cause.Field, cause.Type))
	}
	return strings.Join(out, ", ")
}

func asStatus(err error, status *apierrors.APIStatus) bool {
	var ok bool
	*status, ok = err.(apierrors.APIStatus)
	return ok
}

func TestSecrets(t *testing.T) {
	w := start(t)
	secrets := w.core.Secrets(w.namespace)
	secret := func(name string, kind corev1.SecretType, data ...string) *corev1.Secret {
		out := &corev1.Secret{ObjectMeta: named(name), Type: kind, Data: map[string][]byte{}}
		for _, key := range data {
			out.Data[key] = []byte("{}")
		}
		return out
	}
	big := secret("big", "")
	big.Data["half"], big.Data["rest"] = make([]byte, 1<<19), make([]byte, 1<<19+1)

	for _, tt := range []struct {
		reason string
		secret *corev1.Secret
		want   string
	}{
		{"a certificate without its key", secret("a", corev1.SecretTypeTLS, "tls.crt"), "422 data[tls.key]: FieldValueRequired"},
		{"neither", secret("a", corev1.SecretTypeTLS), "422 data[tls.crt]: FieldValueRequired, 422 data[tls.key]: FieldValueRequired"},
		{"a token of nobody", secret("a", corev1.SecretTypeServiceAccountToken), "422 metadata.annotations[kubernetes.io/service-account.name]: FieldValueRequired"},
		{"no registry's configuration", secret("a", corev1.SecretTypeDockerConfigJson), "422 data[.dockerconfigjson]: FieldValueRequired"},
		{"no name or password", secret("a", corev1.SecretTypeBasicAuth), "422 data[username]: FieldValueRequired, 422 data[password]: FieldValueRequired"},
		{"no private key", secret("a", corev1.SecretTypeSSHAuth), "422 data[ssh-privatekey]: FieldValueRequired"},
		{"keys become file names", secret("a", "", "a/b"), "422 data[a/b]: FieldValueInvalid"},
		{"more than a mebibyte", big, "422 data: FieldValueTooLong"},
		{"a bad name", secret("A", ""), "422 metadata.name: FieldValueInvalid"},
		{"a certificate with its key", secret("tls", corev1.SecretTypeTLS, "tls.crt", "tls.key"), "<nil>"},
		{"any type of one's own", secret("own", "example.com/own"), "<nil>"},
	} {
		if _, err := secrets.Create(t.Context(), tt.secret, create); causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}

	plain, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"},
		StringData: map[string]string{"a": "text"}, Data: map[string][]byte{"a": []byte("data"), "b": []byte("data")},
	}, create)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(plain.Name, "plain-") || plain.Type != corev1.SecretTypeOpaque || plain.StringData != nil ||
		string(plain.Data["a"]) != "text" || string(plain.Data["b"]) != "data" {
		t.Errorf("stored %s of type %s with %s and %v", plain.Name, plain.Type, plain.Data, plain.StringData)
	}
	for kind, body := range map[types.PatchType]string{
		types.MergePatchType:          `{"stringData":{"a":"merged"}}`,
		types.StrategicMergePatchType: `{"stringData":{"a":"strategic"}}`,
		types.ApplyYAMLPatchType:      `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + plain.Name + `"},"stringData":{"a":"applied"}}`,
	} {
		patched, err := secrets.Patch(t.Context(), plain.Name, kind, []byte(body), metav1.PatchOptions{FieldManager: "test", Force: force(kind)})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(body, `"`+string(patched.Data["a"])+`"`) || patched.StringData != nil {
			t.Errorf("%s: stored %s and %v", kind, patched.Data, patched.StringData)
		}
	}

	retyped := plain.DeepCopy()
	retyped.Type, retyped.ResourceVersion = "example.com/other", ""
	if _, err := secrets.Update(t.Context(), retyped, update); causes(err) != "422 type: FieldValueInvalid" {
		t.Errorf("another type: %s", causes(err))
	}
	frozen := plain.DeepCopy()
	frozen.Immutable, frozen.ResourceVersion = ptr.To(true), ""
	if _, err := secrets.Update(t.Context(), frozen, update); err != nil {
		t.Fatal(err)
	}
	frozen.Immutable, frozen.Data["a"] = nil, []byte("other")
	if _, err := secrets.Update(t.Context(), frozen, update); causes(err) != "422 immutable: FieldValueForbidden, 422 data: FieldValueForbidden" {
		t.Errorf("changing an immutable secret: %s", causes(err))
	}

	list, err := secrets.List(t.Context(), metav1.ListOptions{FieldSelector: "type=kubernetes.io/tls"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "tls" {
		t.Errorf("secrets of type tls: %v, %v", list.Items, err)
	}
	if _, err := secrets.List(t.Context(), metav1.ListOptions{FieldSelector: "data=x"}); !apierrors.IsBadRequest(err) {
		t.Errorf("selecting by data: %v", err)
	}
}

func force(kind types.PatchType) *bool {
	if kind == types.ApplyYAMLPatchType {
		return ptr.To(true)
	}
	return nil
}

func TestConfigMaps(t *testing.T) {
	w := start(t)
	configs := w.core.ConfigMaps(w.namespace)
	for _, tt := range []struct {
		reason string
		config corev1.ConfigMap
		want   string
	}{
		{"a key in both", corev1.ConfigMap{ObjectMeta: named("a"), Data: map[string]string{"k": ""}, BinaryData: map[string][]byte{"k": nil}},
			"422 data[k]: FieldValueInvalid"},
		{"keys become file names", corev1.ConfigMap{ObjectMeta: named("a"), Data: map[string]string{"..": ""}}, "422 data[..]: FieldValueInvalid"},
		{"both together are too big", corev1.ConfigMap{ObjectMeta: named("a"),
			Data: map[string]string{"a": strings.Repeat("x", 1<<19)}, BinaryData: map[string][]byte{"b": make([]byte, 1<<19+1)}}, "422 []: FieldValueTooLong"},
		{"fine", corev1.ConfigMap{ObjectMeta: named("a"), Data: map[string]string{"a": "1"}, Immutable: ptr.To(true)}, "<nil>"},
		{"exists", corev1.ConfigMap{ObjectMeta: named("a")}, `409 configmaps "a" already exists`},
	} {
		if _, err := configs.Create(t.Context(), &tt.config, create); causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}
	changed := corev1.ConfigMap{ObjectMeta: named("a"), Data: map[string]string{"a": "2"}, Immutable: ptr.To(true)}
	if _, err := configs.Update(t.Context(), &changed, update); causes(err) != "422 data: FieldValueForbidden" {
		t.Errorf("changing an immutable config map: %s", causes(err))
	}
}

// An object that breaks no limit of a field, but is larger than the store
// accepts, is refused because of its size.
func TestTooLarge(t *testing.T) {
	w := start(t)
	annotated := func(size int) *corev1.ConfigMap {
		config := &corev1.ConfigMap{ObjectMeta: named("large"), Data: map[string]string{"k": strings.Repeat("x", 1<<20)}}
		config.OwnerReferences = make([]metav1.OwnerReference, size)
		for i := range config.OwnerReferences {
			config.OwnerReferences[i] = metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: strings.Repeat("x", 250), UID: types.UID(fmt.Sprint(i))}
		}
		return config
	}
	for size, want := range map[int]string{2000: "413", 8000: "413"} {
		_, err := w.core.ConfigMaps(w.namespace).Create(t.Context(), annotated(size), create)
		if !strings.HasPrefix(causes(err), want) || !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("with %d owners: %s, want %s", size, causes(err), want)
		}
	}
}

func TestServiceAccounts(t *testing.T) {
	w := start(t)
	accounts := w.core.ServiceAccounts(w.namespace)
	account, err := accounts.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/wait"}},
		Secrets:    []corev1.ObjectReference{{Name: "s", Kind: "Secret", Namespace: "elsewhere"}},
	}, create)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1.ObjectReference{{Name: "s"}}, account.Secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	unconditional := account.DeepCopy()
	unconditional.ResourceVersion = ""
	if _, err := accounts.Update(t.Context(), unconditional, update); causes(err) != "422 metadata.resourceVersion: FieldValueInvalid" {
		t.Errorf("update without a version: %s", causes(err))
	}
	if err := accounts.Delete(t.Context(), "a", remove); err != nil {
		t.Fatal(err)
	}
	account, err = accounts.Get(t.Context(), "a", get)
	if err != nil || account.DeletionTimestamp.IsZero() {
		t.Fatalf("while its finalizer is there: %v, %v", account, err)
	}
	account.Finalizers = nil
	if _, err := accounts.Update(t.Context(), account, update); err != nil {
		t.Fatal(err)
	}
	if _, err := accounts.Get(t.Context(), "a", get); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: %v", err)
	}
	_, err = accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "b", Finalizers: []string{"wait"}}}, create)
	if causes(err) != "422 metadata.finalizers[0]: FieldValueInvalid" {
		t.Errorf("a finalizer without a domain: %s", causes(err))
	}
}

// Setting the annotation that Kubernetes has deprecated causes a warning.
func TestServiceAccountWarnings(t *testing.T) {
	w := start(t)
	var told strings.Builder
	cfg := rest.CopyConfig(w.Admin(t))
	cfg.WarningHandler = rest.NewWarningWriter(&told, rest.WarningWriterOptions{})
	accounts := apitest.Client(t, cfg).CoreV1().ServiceAccounts(w.namespace)
	const want = "Warning: metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets\n"
	account := &corev1.ServiceAccount{ObjectMeta: named("a")}
	var err error
	for _, step := range []struct {
		reason, value, want string
	}{{"new", "", ""}, {"set", "true", want}, {"changed", "false", ""}} {
		told.Reset()
		if step.value != "" {
			account.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": step.value}
			account, err = accounts.Update(t.Context(), account, update)
		} else {
			account, err = accounts.Create(t.Context(), account, create)
		}
		if err != nil || told.String() != step.want {
			t.Errorf("%s: %v, warnings %q", step.reason, err, told.String())
		}
	}
	told.Reset()
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "b", Annotations: account.Annotations}}, create); err != nil || told.String() != want {
		t.Errorf("made with it: %v, warnings %q", err, told.String())
	}
}

// A status without a phase means an active namespace.
func TestNamespaceStatusWithoutPhase(t *testing.T) {
	w := start(t)
	namespace, err := w.core.Namespaces().Get(t.Context(), w.namespace, get)
	if err != nil {
		t.Fatal(err)
	}
	namespace.Status = corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{{Type: "Seen", Status: corev1.ConditionTrue}}}
	namespace, err = w.core.Namespaces().UpdateStatus(t.Context(), namespace, update)
	if err != nil {
		t.Fatal(err)
	}
	if namespace.Status.Phase != corev1.NamespaceActive || len(namespace.Status.Conditions) != 1 {
		t.Errorf("status: %+v", namespace.Status)
	}
}
