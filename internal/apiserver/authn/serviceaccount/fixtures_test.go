package serviceaccount

import (
	"context"
	"crypto"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
)

const testIssuer = "https://issuer.example"

var testNow = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func newSigner(t testing.TB, keyType pki.KeyType) crypto.Signer {
	t.Helper()
	signer, err := pki.GenerateKey(keyType)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func newKeys(t testing.TB, signer crypto.Signer, former ...crypto.PublicKey) *Keys {
	t.Helper()
	keys, err := NewKeys(signer, former...)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// grant returns a grant for an hour and for account "builder" of namespace
// "ci", bound to no other object.
func grant() Grant {
	return Grant{
		Binding:   Binding{Namespace: "ci", Account: Ref{"builder", "u-builder"}},
		Audiences: []string{"api"},
		Lifetime:  time.Hour,
	}
}

func issue(t testing.TB, keys *Keys, grant Grant) string {
	t.Helper()
	token, _, err := Issuer{Name: testIssuer, Keys: keys}.Issue(grant, testNow)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// objects is a Lookup in a map; keys are like "pods/ci/web".
type objects map[string]*metav1.ObjectMeta

func (o objects) find(_ context.Context, kind Kind, namespace string, ref Ref) (metav1.Object, error) {
	if found, ok := o[string(kind)+"/"+namespace+"/"+ref.Name]; ok {
		return found, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: string(kind)}, ref.Name)
}

func object(uid types.UID) *metav1.ObjectMeta { return &metav1.ObjectMeta{UID: uid} }

func deleted(uid types.UID, at time.Time) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{UID: uid, DeletionTimestamp: &metav1.Time{Time: at}}
}
