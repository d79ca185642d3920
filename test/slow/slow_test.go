package slow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/certplane/certplane/internal/apitest"
)

// With a share of one core, the first start and the next one take longer, and then
// everything works.
func TestShareOfOneCore(t *testing.T) {
	for _, share := range numbers(t, *sharesFlag) {
		t.Run(fmt.Sprintf("%d%%", share), func(t *testing.T) {
			s := newServer(t)
			for _, start := range []string{"first", "second"} {
				s.startReady(t, share)
				s.works(t, start)
				s.stop(t)
			}
		})
	}
}

// A start reads all requests that are stored, with the largest share of one core.
func TestStoredRequests(t *testing.T) {
	shares := numbers(t, *sharesFlag)
	for _, count := range numbers(t, *requestsFlag) {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			s := newServer(t)
			s.startReady(t, 0)
			s.storeRequests(t, count)
			s.stop(t)
			s.startReady(t, shares[len(shares)-1])
			status, text := s.get("/apis/certificates.k8s.io/v1/certificatesigningrequests?limit=1")
			var list struct {
				Metadata struct{ RemainingItemCount int }
			}
			if err := json.Unmarshal([]byte(text), &list); err != nil || list.Metadata.RemainingItemCount < count {
				t.Errorf("the API answers %d with %d requests and one more (%v), not %d", status, list.Metadata.RemainingItemCount, err, count)
			}
			s.works(t, "web")
			s.stop(t)
		})
	}
}

// storeRequests writes copies of a request into the store.
func (s *server) storeRequests(t *testing.T, count int) {
	t.Helper()
	const name, prefix = "slow-00000000", "/registry/certificatesigningrequests/"
	s.run(t, "", "request", "--signer", "server", "--dns", "copy.example.com", "--name", name, "--out", "copy", "--wait", "0")
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(s.data, "etcd", "client.sock")}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	stored, err := store.Get(t.Context(), prefix+name)
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatalf("the store has %v under %s (%v)", stored, prefix+name, err)
	}
	uid := strings.TrimSpace(s.run(t, "", "kubectl", "get", "csr", name, "-o", "jsonpath={.metadata.uid}"))
	// Names and identifiers of the same length keep the encoding valid.
	copied := func(i int) clientv3.Op {
		named := fmt.Sprintf("slow-%08d", i)
		value := bytes.ReplaceAll(stored.Kvs[0].Value, []byte(name), []byte(named))
		value = bytes.ReplaceAll(value, []byte(uid), fmt.Appendf(nil, "%08d%s", i, uid[8:]))
		return clientv3.OpPut(prefix+named, string(value))
	}
	const batch = 100
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for from := 1; from <= count; from += batch {
		group.Go(func() error {
			var puts []clientv3.Op
			for i := from; i < from+batch && i <= count; i++ {
				puts = append(puts, copied(i))
			}
			_, err := store.Txn(ctx).Then(puts...).Commit()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("storing requests: %v", err)
	}
}

// Definitions delayed by a webhook delay readiness. The API answers during this time.
func TestDelayedDefinitions(t *testing.T) {
	s := newServer(t)
	s.startReady(t, 0)
	var admits atomic.Bool // not before the restart
	url, ca := apitest.Webhook(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { delay(w, r, admits.Load()) }))
	configuration, err := json.Marshal(map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": "slow.example.com"},
		"webhooks": []any{map[string]any{
			"name": "slow.example.com", "clientConfig": map[string]any{"url": url, "caBundle": ca},
			"rules": []any{map[string]any{
				"apiGroups": []string{"apiextensions.k8s.io"}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE", "UPDATE"},
				"resources": []string{"customresourcedefinitions"},
			}},
			"sideEffects": "None", "timeoutSeconds": 30, "failurePolicy": "Fail", "admissionReviewVersions": []string{"v1"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, string(configuration), "kubectl", "apply", "-f", "-")
	var own []string
	for _, name := range strings.Fields(s.run(t, "", "kubectl", "get", "crd", "-o", "name")) {
		if strings.HasSuffix(name, ".certplane.dev") {
			own = append(own, name)
		}
	}
	if len(own) < 3 {
		t.Fatalf("the server has only the definitions %v", own)
	}
	s.run(t, "", append([]string{"kubectl", "delete", "--wait=false"}, own[:3]...)...)
	for _, name := range own[:3] {
		_, plain, _ := strings.Cut(name, "/")
		s.until(t, plain+" is gone", func() error {
			if status, text := s.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + plain); status != http.StatusNotFound {
				return fmt.Errorf("%d %s", status, text)
			}
			return nil
		})
	}
	s.stop(t)
	admits.Store(true)
	s.start(t, 0)
	s.until(t, "/readyz waits for the kinds, and nothing else", func() error {
		_, text := s.get("/readyz")
		if strings.Count(text, "[-]") > 2 || !strings.Contains(text, "[-]own-kinds") {
			return fmt.Errorf("/readyz: %s", text)
		}
		return nil
	})
	if status, text := s.get("/apis/certificates.k8s.io/v1/certificatesigningrequests"); status != http.StatusOK {
		t.Errorf("requests cannot be read meanwhile: %d %s", status, text)
	}
	s.until(t, "the server is ready", s.ready)
	s.until(t, "the server says that it is ready", s.announced)
	s.works(t, "web")
	s.stop(t)
}

// delay answers late.
func delay(w http.ResponseWriter, r *http.Request, allowed bool) {
	var review map[string]any
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(*delayFlag):
	case <-r.Context().Done():
		return
	}
	request, _ := review["request"].(map[string]any)
	review["response"] = map[string]any{"uid": request["uid"], "allowed": allowed}
	delete(review, "request")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// An external etcd that is away makes the server unready; nothing ends.
func TestEtcdAway(t *testing.T) {
	at, err := url.Parse("http://" + apitest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stopEtcd := startEtcd(t, dir, at)
	s := newServer(t, "--config", "server.yaml")
	config := fmt.Sprintf("apiVersion: config.certplane.dev/v1alpha1\nkind: ServerConfiguration\netcd: {servers: [%q]}\n", at)
	if err := os.WriteFile(filepath.Join(s.dir, "server.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.startReady(t, 0)
	s.works(t, "before")
	stopEtcd()
	gone := time.Now()
	s.until(t, "/readyz names etcd", func() error {
		status, text := s.get("/readyz")
		if status == http.StatusOK || !strings.Contains(text, "[-]etcd") {
			return fmt.Errorf("/readyz: %d %s", status, text)
		}
		return nil
	})
	// /readyz answers within the time that the check has for it.
	if text, err := s.output(t, "", "check"); err == nil || !strings.Contains(text, "it is not ready: etcd") {
		t.Errorf("certplane check without an etcd: %v\n%s", err, text)
	}
	s.until(t, "etcd has been away long enough", func() error {
		if status, text := s.get("/readyz"); status == http.StatusOK {
			t.Fatalf("/readyz without an etcd: %s", text)
		}
		if left := *awayFlag - time.Since(gone); left > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	startEtcd(t, dir, at)
	s.until(t, "the server is ready again", s.ready)
	s.works(t, "after")
	s.stop(t)
}

// startEtcd starts an etcd in this process and waits until it answers. It ends with the
// test, or with stop.
func startEtcd(t *testing.T, dir string, at *url.URL) (stop func()) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.ListenPeerUrls = dir, nil
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*at}, []url.URL{*at}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(etcd.Close)
	t.Cleanup(stop)
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		t.Fatal(err)
	case <-time.After(*patienceFlag):
		t.Fatal("etcd does not start")
	}
	return stop
}
