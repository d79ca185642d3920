package server_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/freeport"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/run/server"
)

// revoke revokes the client certificate of a configuration.
func revoke(t *testing.T, by, of *rest.Config) {
	t.Helper()
	api, err := client.New(by, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(api.Scheme()); err != nil {
		t.Fatal(err)
	}
	chain, err := pki.ParseBundle(of.CertData)
	if err != nil {
		t.Fatal(err)
	}
	err = api.Create(t.Context(), &v1alpha1.Revocation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec:       v1alpha1.RevocationSpec{Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(chain[0]))}}, Reason: "KeyCompromise"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A revoked certificate is refused by all servers of a store. If it is that of the
// administrator, who may all, admin.kubeconfig gets another one of each server that has it.
func TestRevokedWithSeveralServers(t *testing.T) {
	t.Parallel()
	store := startExternalEtcd(t)
	useStore := func(cfg *server.Config) { cfg.Etcd = store }
	first := apitest.Start(t, useStore)
	second := apitest.Start(t, useStore, func(cfg *server.Config) { sharePKI(t, first.Config.DataDir, cfg.DataDir) })
	answer := func(s *apitest.Server, as *rest.Config) error {
		as = rest.CopyConfig(as)
		as.Host = s.URL
		return apitest.Client(t, as).Discovery().RESTClient().Get().AbsPath("/api").Do(t.Context()).Error()
	}
	alice := first.Login(t, "alice")
	if err := answer(second, alice); err != nil {
		t.Fatal(err)
	}
	watch := apitest.StartStopwatch(t)
	revoke(t, first.Admin(t), alice)
	if err := answer(first, alice); !apierrors.IsUnauthorized(err) {
		t.Errorf("the server that was told: %v", err)
	}
	apitest.Eventually(t, "the other server refuses alice", func() bool { return apierrors.IsUnauthorized(answer(second, alice)) })
	if took := watch.Elapsed(); took > 5*time.Second { // a second, on an idle machine
		t.Errorf("the other server has refused alice after %s", took)
	}

	before := []*rest.Config{first.Admin(t), second.Admin(t)}
	for i, s := range []*apitest.Server{first, second} {
		revoke(t, s.Admin(t), before[i])
		if err := answer(s, before[i]); !apierrors.IsUnauthorized(err) {
			t.Errorf("the former administrator: %v", err)
		}
		begin := watch.Elapsed()
		apitest.Eventually(t, "admin.kubeconfig works again", func() bool { return answer(s, s.Admin(t)) == nil })
		if took := watch.Elapsed() - begin; took > 5*time.Second {
			t.Errorf("admin.kubeconfig works again after %s", took)
		}
	}
}

// A server that starts accepts no request before it knows all revocations.
func TestRevokedWhileStarting(t *testing.T) {
	t.Parallel()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	s := apitest.Start(t, func(cfg *server.Config) { cfg.Serving.Listen = address })
	alice := s.Login(t, "alice")
	revoke(t, s.Admin(t), alice)
	const acts, entries = 5, 4000
	for a := range acts {
		all := make([]revocation.Entry, entries)
		for n := range all {
			all[n] = revocation.Entry{Authority: []byte{byte(a)}, Serial: []byte{1, byte(n >> 8), byte(n)}, Time: time.Now(), NotAfter: time.Now().Add(time.Hour)}
		}
		act := revocation.Act{UID: types.UID(fmt.Sprint("filler-", a))}
		data, err := revocation.Encode(act, all)
		if err != nil {
			t.Fatal(err)
		}
		s.Store(t, "/registry/inventory.certplane.dev/revoked/"+string(act.UID), string(data))
	}
	try := func(ctx context.Context) error {
		cfg := rest.CopyConfig(alice)
		cfg.Dial = (&net.Dialer{}).DialContext // a new connection
		return apitest.Client(t, cfg).Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if try(ctx) == nil {
				t.Error("a request was accepted")
				return
			}
		}
	}()
	s.Restart(t)
	if err := try(ctx); !apierrors.IsUnauthorized(err) {
		t.Errorf("after the start: %v", err)
	}
	stop()
	<-ended
}
