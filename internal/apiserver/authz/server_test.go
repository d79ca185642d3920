package authz_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

const chain = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: company
  webhook:
    timeout: 3s
    authorizedTTL: 30s
    unauthorizedTTL: 30s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: KUBECONFIG}
    matchConditions:
    - expression: "!request.user.startsWith('system:')"
    - expression: "!('system:masters' in request.groups)"
- {type: Node, name: node}
- {type: RBAC, name: rbac}
`

// A webhook that comes first decides, but is called only for the users in its
// conditions; requests on which it has no opinion are left to RBAC.
func TestWebhook(t *testing.T) {
	hook := &company{}
	server := startWith(t, hook.serve(t))
	server.Grant(t, "eve", apitest.Allow("get", "certificatesigningrequests"))
	server.Grant(t, "bob", apitest.Allow("get", "certificatesigningrequests"))
	what := authorizationv1.ResourceAttributes{Verb: "get", Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	for user, want := range map[string]bool{
		"alice": true,  // the webhook allows
		"eve":   false, // the webhook denies what RBAC allows
		"bob":   true,  // RBAC allows
		"carol": false, // no authorizer allows
	} {
		if got := server.Allowed(t, user, nil, what); got != want {
			t.Errorf("%s may: %v, want %v", user, got, want)
		}
	}
	for _, user := range hook.users() {
		if strings.HasPrefix(user, "system:") || user == "certplane:admin" {
			t.Errorf("the webhook was asked about %s", user)
		}
	}
}

// The server follows the file: a valid change is applied without a restart; an
// invalid one is counted and changes nothing.
func TestChangesOfTheFile(t *testing.T) {
	hook := &company{}
	kubeconfig := kubeconfigOf(t, hook.serve(t))
	file := write(t, alone)
	s := apitest.Start(t, func(c *server.Config) { c.Authorization.ConfigFile = file })
	what := authorizationv1.ResourceAttributes{Verb: "get", Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	mayAlice := func() bool { return s.Allowed(t, "alice", nil, what) }
	if mayAlice() {
		t.Fatal("alice may before anybody says so")
	}
	good, bad := counted(t, s, "success"), counted(t, s, "failure") // of the whole process

	change(t, file, strings.Replace(chain, "KUBECONFIG", kubeconfig, 1))
	apitest.Eventually(t, "the webhook is asked", mayAlice)

	change(t, file, strings.Replace(chain, "startsWith", "begins", 1))
	apitest.Eventually(t, "the failure is counted", func() bool { return counted(t, s, "failure") == bad+1 })
	if !mayAlice() {
		t.Error("a file that cannot be used has changed what alice may")
	}

	change(t, file, alone)
	apitest.Eventually(t, "the webhook is asked no more", func() bool { return !mayAlice() })
	if got := counted(t, s, "success") - good; got != 2 {
		t.Errorf("%d changes were counted, want 2", got)
	}
}

// alone is the equivalent of a server without a file.
const alone = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers: [{type: RBAC, name: rbac}]
`

// change replaces the file as a whole: a partly written file would count as
// another failure.
func change(t *testing.T, file, text string) {
	t.Helper()
	if err := os.Rename(write(t, text), file); err != nil {
		t.Fatal(err)
	}
}

// counted returns how often the file was applied, or could not be.
func counted(t *testing.T, s *apitest.Server, status string) int {
	t.Helper()
	metrics, err := apitest.Client(t, s.Admin(t)).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^apiserver_authorization_config_controller_automatic_reloads_total{.*status="` + status + `"} (\d+)$`)
	total := 0
	for _, match := range line.FindAllSubmatch(metrics, -1) {
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

func TestSettingsRefuse(t *testing.T) {
	tests := []struct{ reason, config, want string }{
		{"unknown field", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorisers: []", `unknown field "authorisers"`},
		{"unknown type", strings.Replace(chain, "type: Node", "type: ABAC", 1), "ABAC"},
		{"a condition that does not compile", strings.Replace(chain, "startsWith", "begins", 1), "matchConditions"},
		{"another API server as the webhook", strings.Replace(chain, "{type: KubeConfigFile, kubeConfigFile: KUBECONFIG}", "{type: InClusterConfig}", 1), "connectionInfo.type"},
		{"no kubeconfig", strings.Replace(chain, "KUBECONFIG", "/nosuch", 1), "/nosuch"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cfg := server.DefaultConfig()
			cfg.DataDir, cfg.Serving.Listen = t.TempDir(), "127.0.0.1:0"
			cfg.Authorization.ConfigFile = write(t, tt.config)
			err := server.Run(ctx, cfg, func(server.Ready) { t.Error("the server started"); cancel() })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to name %s", err, tt.want)
			}
		})
	}
}

// If a webhook denies the server's own controllers what they need, the start
// ends immediately with an error that explains it.
func TestStartIsDenied(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("the webhook cannot read what it got: %v", err)
		}
		review.Status.Denied, review.Status.Reason = true, "who are you?"
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("answering: %v", err)
		}
	}))
	t.Cleanup(hook.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Serving.Listen = t.TempDir(), "127.0.0.1:0"
	text := strings.Replace(chain, "KUBECONFIG", kubeconfigOf(t, hook.URL), 1)
	cfg.Authorization.ConfigFile = write(t, strings.Replace(text, "\"!request.user.startsWith('system:')\"", "\"true\"", 1))
	err := server.Run(ctx, cfg, func(server.Ready) { t.Error("the server started"); cancel() })
	const want = `authorization: webhook "company" denies the server's own account system:serviceaccount:kube-system:controller-cache, ` +
		`with which its controllers watch certificatesigningrequests.certificates.k8s.io (who are you?). Have it allow the group system:serviceaccounts:kube-system`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func startWith(t *testing.T, url string) *apitest.Server {
	t.Helper()
	file := write(t, strings.Replace(chain, "KUBECONFIG", kubeconfigOf(t, url), 1))
	return apitest.Start(t, func(c *server.Config) { c.Authorization.ConfigFile = file })
}

func kubeconfigOf(t *testing.T, url string) string {
	t.Helper()
	return write(t, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: a\n  cluster: {server: '"+url+"'}\n"+
		"contexts:\n- name: c\n  context: {cluster: a, user: u}\nusers:\n- name: u\n")
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// company allows everything to alice and denies everything to eve.
type company struct {
	mu    sync.Mutex // guards asked
	asked []string
}

func (c *company) serve(t *testing.T) (url string) {
	t.Helper()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("the webhook cannot read what it got: %v", err)
		}
		c.mu.Lock()
		c.asked = append(c.asked, review.Spec.User)
		c.mu.Unlock()
		isMarker := review.Spec.ResourceAttributes != nil && review.Spec.ResourceAttributes.Resource == "marker-of-grant"
		review.Status.Allowed = review.Spec.User == "alice"
		review.Status.Denied = review.Spec.User == "eve" && !isMarker
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("answering: %v", err)
		}
	}))
	t.Cleanup(hook.Close)
	return hook.URL
}

func (c *company) users() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}
