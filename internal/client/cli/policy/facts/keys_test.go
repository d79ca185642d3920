package facts_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// The requests among the facts are those with which keys are compared.
func TestStoredKeys(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := pki.NewRequest(pki.Subject{DNSNames: []string{"www.example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	alice := request.User("alice")
	all, err := (&requests.Options{Signer: "a.io/b", As: &alice, Usages: []string{"server auth"}}).Read("request.pem", pem)
	if err != nil {
		t.Fatal(err)
	}
	r := &all[0].Request
	objects := fmt.Sprintf(`
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: before}
spec: {signerName: a.io/b, request: %s, usages: [server auth], username: %%s}
`, base64.StdEncoding.EncodeToString(pem))
	for _, tt := range []struct {
		user           string
		same, previous bool
	}{{"alice", true, true}, {"bob", true, false}} {
		s := store(t, fmt.Sprintf(objects, tt.user))
		if !s.HasRequests() {
			t.Error("there are no requests")
		}
		found := (&facts.Finder{Objects: s}).Of(context.Background(), r, nil, certpolicy.Needs{Keys: true}).Keys
		if !found.Known || (found.Value.Same != nil) != tt.same || (found.Value.Previous != nil) != tt.previous {
			t.Errorf("after a request of %s: %+v", tt.user, found)
		}
	}
	none := store(t, "")
	if found := (&facts.Finder{Objects: none}).Of(context.Background(), r, nil, certpolicy.Needs{Keys: true}).Keys; !found.Known || found.Value.Same != nil || none.HasRequests() {
		t.Errorf("without requests: %+v", found)
	}
	for reason, finder := range map[string]*facts.Finder{
		"nothing says which requests there are": {Objects: none, RequestsUnknown: true},
		"requests may not be listed":            {Objects: forbidden{none}},
	} {
		if found := finder.Of(context.Background(), r, nil, certpolicy.Needs{Keys: true}).Keys; found.Known {
			t.Errorf("%s: %+v", reason, found)
		}
	}
}

type forbidden struct{ client.Reader }

func (forbidden) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("forbidden")
}
