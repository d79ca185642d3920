package apiserver

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apiserver/extension/lean"
	"github.com/certplane/certplane/internal/apiserver/revoking"
	"github.com/certplane/certplane/internal/pki"
)

// accepting is a store that accepts every object.
type accepting struct{ storage.Interface }

func (accepting) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return nil
}

// A Revocation is in force when it is answered, also if the watch of the store is late.
func TestRevocationIsInForceWhenAnswered(t *testing.T) {
	records, _ := newRecords(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); records.Run(ctx) }()
	if err := records.AwaitRead(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended // from now on, no watch

	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	revoker := revoking.New(revoking.Config{
		Records: records, Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(), Clock: clock.RealClock{},
		CAs: func(context.Context) ([]revoking.CA, error) {
			return []revoking.CA{{Certificate: root.Certificate(), Signer: "example.com/root"}}, nil
		},
	})
	for _, together := range []bool{true, false} {
		chain, err := root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "web"}, key.Public(), pki.ClientUsages(), time.Minute, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		spec, err := json.Marshal(v1alpha1.RevocationSpec{Reason: "KeyCompromise", Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(chain[0]))}}})
		if err != nil {
			t.Fatal(err)
		}
		name := map[bool]string{true: "a", false: "b"}[together]
		object := &lean.Object{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: lean.JSON(spec)}
		store := (&recording{records: records, clock: clock.RealClock{}, together: together, revoker: revoker}).wrap(revoking.Resource, accepting{})
		as := apirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "admin"})
		if err := store.Create(as, "/"+name, object, &lean.Object{}, 0); err != nil {
			t.Fatalf("together %v: %v", together, err)
		}
		if _, revoked := records.Revoked().Certificate(chain[0]); !revoked {
			t.Errorf("together %v: the certificate is not revoked yet", together)
		}
		if object.Status == "" {
			t.Errorf("together %v: the Revocation has no status", together)
		}
	}
}
