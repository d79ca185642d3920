package certmanager_test

import (
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/certplane/certplane/internal/api/certmanager"
)

// Where an answer was presented is said by controllers only: it is removed from
// there with the issuer's credentials. Users of the role edit may write all other
// metadata.
func TestRecordsOfChallenges(t *testing.T) {
	w := start(t)
	challenges := func(resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get", "create", "update", "patch"}, APIGroups: []string{api.ACMEGroup}, Resources: resources}
	}
	tenant := w.as(t, w.user("tenant"), challenges("challenges"))
	controller := w.as(t, w.user("controller"), challenges("challenges", "challenges/status"))

	const text = `metadata.annotations[acme.certplane.dev/presented]: Forbidden: only users who may update the status of Challenges may set it`
	foreign := `{"provider":"rfc2136","fqdn":"www.example.com.","zone":"example.com."}`
	write := func(by client.Client, change func(map[string]string)) error {
		ch := &acmev1.Challenge{}
		if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "web"}, ch); err != nil {
			t.Fatal(err)
		}
		from := client.MergeFrom(ch.DeepCopy()) // the controller of Challenges writes, too
		change(ch.Annotations)
		return by.Patch(t.Context(), ch, from)
	}
	permitted := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}

	refused(t, tenant.Create(t.Context(), newChallenge(map[string]string{api.PresentedAnnotation: foreign})), text)
	permitted(tenant.Create(t.Context(), newChallenge(map[string]string{"team": "a"})))
	refused(t, write(tenant, func(a map[string]string) { a[api.PresentedAnnotation] = foreign }), text)
	permitted(write(controller, func(a map[string]string) { a[api.PresentedAnnotation] = "here" }))
	permitted(write(tenant, func(a map[string]string) { a["team"] = "b" }))
	refused(t, write(tenant, func(a map[string]string) { a[api.PresentedAnnotation] = foreign }), text)
	permitted(write(tenant, func(a map[string]string) { delete(a, api.PresentedAnnotation) }))
	refused(t, write(tenant, func(a map[string]string) { a[api.PresentedAnnotation] = "here" }), text)
	permitted(write(w.admin, func(a map[string]string) { a[api.PresentedAnnotation] = "there" }))
}

func newChallenge(annotations map[string]string) *acmev1.Challenge {
	return &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations},
		Spec: acmev1.ChallengeSpec{
			URL: "https://ca.example.com/challenge", AuthorizationURL: "https://ca.example.com/authorization", DNSName: "example.com",
			Type: acmev1.ACMEChallengeTypeDNS01, Token: "token", Key: "key", IssuerRef: cmmeta.IssuerReference{Name: "none"},
			Solver: acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{}},
		},
	}
}
