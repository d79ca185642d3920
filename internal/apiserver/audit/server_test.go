package audit_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// An approval is the most important record: the user, the impersonated user,
// and the object.
func TestLogRecordsApproval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "audit.log")
	s := apitest.Start(t, func(c *server.Config) { c.Audit.Log.Path = path })
	admin := apitest.Client(t, s.Admin(t))
	csr := apitest.Create(t, admin, apitest.NewCSR(t, "audited", "example.com/x", pki.Subject{CommonName: "bob"}, apitest.NewKey(t)))
	as := s.Admin(t)
	as.Impersonate = rest.ImpersonationConfig{UserName: "alice", UID: "1234", Groups: []string{"system:masters"}}
	apitest.Decide(t, apitest.Client(t, as), csr, "Approved")

	event := recorded(t, path, func(e auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.Subresource == "approval"
	})
	if event.Verb != "update" || event.ObjectRef.Name != "audited" || event.User.Username != "certplane:admin" || event.ResponseStatus.Code != 200 {
		t.Errorf("the record of an approval is %+v", event)
	}
	if as := event.ImpersonatedUser; as == nil || as.Username != "alice" || as.UID != "1234" {
		t.Errorf("impersonatedUser is %+v", as)
	}
	if event.Level != auditv1.LevelMetadata || event.RequestObject != nil || event.ResponseObject != nil {
		t.Errorf("the built-in policy recorded a body at level %s", event.Level)
	}
	checkPrivate(t, path)
}

// Records of health checks and the server's own reads would hide all others.
func TestBuiltinPolicyLeavesOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	s := apitest.Start(t, func(c *server.Config) { c.Audit.Log.Path = path })
	admin := apitest.Client(t, s.Admin(t))
	if err := admin.Discovery().RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoles().Get(t.Context(), "cluster-admin", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	recorded(t, path, func(e auditv1.Event) bool {
		return e.Verb == "get" && e.ObjectRef != nil && e.ObjectRef.Name == "cluster-admin"
	})
	for _, event := range events(t, path) {
		if event.RequestURI == "/readyz" {
			t.Errorf("a health check is on record: %+v", event)
		}
		// Reads of Secrets are recorded.
		if event.User.Username == "system:apiserver" && event.Verb == "watch" && event.ObjectRef.Resource != "secrets" {
			t.Errorf("a read of the server is on record: %+v", event)
		}
	}
}

func TestPolicyFile(t *testing.T) {
	dir := t.TempDir()
	path, policy := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml")
	write(t, policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: RequestResponse\n  users: [certplane:admin]\n")
	s := apitest.Start(t, func(c *server.Config) { c.Audit.Log.Path, c.Audit.PolicyFile = path, policy })
	apitest.Create(t, apitest.Client(t, s.Admin(t)), apitest.NewCSR(t, "bodied", "example.com/x", pki.Subject{}, apitest.NewKey(t)))
	event := recorded(t, path, func(e auditv1.Event) bool { return e.Verb == "create" && e.Stage == auditv1.StageResponseComplete })
	if event.RequestObject == nil || !bytes.Contains(event.ResponseObject.Raw, []byte("bodied")) {
		t.Errorf("the policy asks for bodies, the record is %+v", event)
	}
}

func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var got auditv1.EventList
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var list auditv1.EventList
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Errorf("the webhook cannot read what it got: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		got.Items = append(got.Items, list.Items...)
	}))
	t.Cleanup(hook.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: a\n  cluster: {server: '"+hook.URL+"'}\n"+
		"contexts:\n- name: c\n  context: {cluster: a, user: u}\nusers:\n- name: u\n")
	s := apitest.Start(t, func(c *server.Config) {
		c.Audit.Webhook.Kubeconfig = kubeconfig
		c.Audit.Webhook.Batch.MaxWait = metav1.Duration{Duration: 10 * time.Millisecond}
	})
	apitest.Create(t, apitest.Client(t, s.Admin(t)), apitest.NewCSR(t, "sent", "example.com/x", pki.Subject{}, apitest.NewKey(t)))
	apitest.Eventually(t, "the webhook hears of a request", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, event := range got.Items {
			if event.Verb == "create" && event.ObjectRef.Resource == "certificatesigningrequests" {
				return true
			}
		}
		return false
	})
}

// recorded waits for an event: the last stage is written after the client has
// the response.
func recorded(t *testing.T, path string, wanted func(auditv1.Event) bool) auditv1.Event {
	t.Helper()
	var found auditv1.Event
	apitest.Eventually(t, "a request is on record", func() bool {
		for _, event := range events(t, path) {
			if wanted(event) {
				found = event
				return true
			}
		}
		return false
	})
	return found
}

func events(t *testing.T, path string) []auditv1.Event {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found []auditv1.Event
	for line := range strings.Lines(string(data)) {
		if !strings.HasSuffix(line, "\n") {
			break // still being written
		}
		var event auditv1.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("a line of the log is not an event: %v\n%s", err, line)
		}
		found = append(found, event)
	}
	return found
}

func checkPrivate(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the log: %v", info.Mode())
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
