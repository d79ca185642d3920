package policies_test

import (
	"context"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// Clients of issuers that pass requests on are refused when they finalize what these issuers
// would refuse when they sign.
func TestACMESignersOfIssuers(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := cmv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	vault := cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{Vault: &cmv1.VaultIssuer{}}}
	own := cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{}}}
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "vault"}, Spec: vault},
		&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: own},
		&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "venafi"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{Venafi: &cmv1.VenafiIssuer{}}}},
		&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "same"}, Spec: vault},
		&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "same"}, Spec: own},
	).Build()
	forbidden := interceptor.NewClient(stored, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return apierrors.NewForbidden(cmv1.Resource("issuers"), "same", nil)
	}})
	issuer := func(kind, name string) v1alpha1.AcmeProfile {
		return v1alpha1.AcmeProfile{Issuer: &v1alpha1.AcmeIssuer{Group: "cert-manager.io", Kind: kind, Name: name}}
	}
	signer := func(name string) v1alpha1.AcmeProfile {
		return v1alpha1.AcmeProfile{Signer: &v1alpha1.AcmeSigner{Name: name}}
	}
	names, verbatim := acmeorder.SignerFacts{TakesNamesOnly: true}, acmeorder.SignerFacts{TakesNamesOnly: true, Verbatim: true}
	for _, tc := range []struct {
		reason  string
		profile v1alpha1.AcmeProfile
		live    client.Reader
		want    acmeorder.SignerFacts
	}{
		{"Vault", issuer("ClusterIssuer", "vault"), stored, verbatim},
		{"Venafi", issuer("ClusterIssuer", "venafi"), stored, verbatim},
		{"a CA", issuer("ClusterIssuer", "own"), stored, names},
		{"an Issuer in the namespace of the account", issuer("Issuer", "same"), stored, verbatim},
		{"a signer's name for an issuer", signer("issuers.cert-manager.io/b.same"), stored, names},
		{"a signer's name for Vault", signer("clusterissuers.cert-manager.io/vault"), stored, verbatim},
		{"one that does not exist", issuer("Issuer", "none"), stored, names},
		{"one that may not be read", issuer("Issuer", "same"), forbidden, names},
		{"of another program", v1alpha1.AcmeProfile{Issuer: &v1alpha1.AcmeIssuer{Group: "example.com", Kind: "Issuer", Name: "same"}}, stored, acmeorder.SignerFacts{}},
	} {
		got, err := policies.ACMESigners(stored, tc.live, true, time.Now)(t.Context(), &tc.profile, "a")
		if err != nil || got.TakesNamesOnly != tc.want.TakesNamesOnly || got.Verbatim != tc.want.Verbatim {
			t.Errorf("%s: %+v, %v", tc.reason, got, err)
		}
	}
}
