package cluster_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
	"github.com/certplane/certplane/internal/run/server"
)

// world is a server without certificate controllers, in which they are
// installed as in a cluster.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
	// kubeconfig is the kubeconfig of the account that the pods would have.
	kubeconfig string
}

func start(t *testing.T) world { return startWith(t, "*") }

// startWith starts a server and installs the chosen controllers.
func startWith(t *testing.T, choice ...string) world {
	t.Helper()
	return startIn(t, apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} }), choice...)
}

// startIn is startWith for a server that already runs.
func startIn(t *testing.T, s *apitest.Server, choice ...string) world {
	t.Helper()
	return startInWith(t, s, func(c *cluster.Config) { c.Controllers = choice })
}

// startInWith is startIn for a changed configuration.
func startInWith(t *testing.T, s *apitest.Server, change func(*cluster.Config)) world {
	t.Helper()
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	w.install(t, change)
	apitest.Eventually(t, "the server knows the rights", func() bool {
		return s.Allowed(t, "system:serviceaccount:certplane-system:certplane-controllers", nil, authorizationv1.ResourceAttributes{
			Namespace: "certplane-system", Verb: "create", Resource: "serviceaccounts", Subresource: "token", Name: "csr-signer",
		})
	})
	token, err := w.admin.CoreV1().ServiceAccounts("certplane-system").
		CreateToken(t.Context(), "certplane-controllers", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.kubeconfig = w.writeKubeconfig(t, clientcmdapi.AuthInfo{Token: token.Status.Token})
	return w
}

// install applies the manifests of the kinds that this server has.
func (w world) install(t *testing.T, change func(*cluster.Config)) {
	t.Helper()
	var text bytes.Buffer
	cfg := cluster.DefaultConfig()
	change(&cfg)
	if cfg.ServesACME() { // a pod listens everywhere
		cfg.ACMEServer.Listen = ":8444"
	}
	if err := manifests.Write(&text, manifests.Config{Image: "test", Controllers: cfg}); err != nil {
		t.Fatal(err)
	}
	w.apply(t, &text)
}

// apply creates the objects in text of the kinds that this server has.
func (w world) apply(t *testing.T, text io.Reader) {
	t.Helper()
	api, err := client.New(w.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(text, 4096)
	for {
		object := &unstructured.Unstructured{}
		if decoder.Decode(&object.Object) != nil {
			return
		}
		if len(object.Object) == 0 {
			continue // the heading
		}
		err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
		if err != nil && !meta.IsNoMatchError(err) {
			t.Fatalf("applying %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

func (w world) writeKubeconfig(t *testing.T, user clientcmdapi.AuthInfo) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: w.URL, CertificateAuthorityData: w.Admin(t).CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": &user},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// config returns the configuration of a process that works for the server.
func (w world) config(t *testing.T) cluster.Config {
	t.Helper()
	cfg := cluster.DefaultConfig()
	cfg.ClientConnection.Kubeconfig = w.kubeconfig
	cfg.Metrics.BindAddress, cfg.Health.BindAddress = "0", apitest.FreeAddress(t)
	cfg.LeaderElection.RetryPeriod.Duration = 100 * time.Millisecond
	pki := filepath.Join(w.Config.DataDir, "pki")
	cfg.Signing.CA.CertFile, cfg.Signing.CA.KeyFile = filepath.Join(pki, "client-ca.crt"), filepath.Join(pki, "client-ca.key")
	return cfg
}

// process is a process that runs until it is stopped or the test ends.
type process struct {
	stop  context.CancelFunc
	ended chan error // has one value
}

// run runs controllers until they are ready.
func run(t *testing.T, cfg cluster.Config) process {
	t.Helper()
	p := starts(t, cfg)
	apitest.Eventually(t, "the controllers are ready", func() bool {
		p.lives(t)
		return ready(cfg)
	})
	return p
}

// starts runs controllers, which need not be ready.
func starts(t *testing.T, cfg cluster.Config) process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := process{stop: stop, ended: make(chan error, 1)}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.ended <- cluster.Run(ctx, cfg)
	}()
	t.Cleanup(func() { stop(); <-gone })
	return p
}

// lives fails the test if the process has ended.
func (p process) lives(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		t.Fatalf("the controllers ended: %v", err)
	default:
	}
}

func ready(cfg cluster.Config) bool {
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _ := probe(cfg, path); status != http.StatusOK {
			return false
		}
	}
	return true
}

// stopped reports whether no controllers run, while the process answers.
func stopped(cfg cluster.Config) bool {
	_, text := probe(cfg, "/readyz")
	return strings.Contains(text, "[-]controllers failed")
}

// probe returns 0 if the process does not answer.
func probe(cfg cluster.Config, path string) (status int, text string) {
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Get("http://" + cfg.Health.BindAddress + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// leader returns the holder of the lease, or "".
func (w world) leader(t *testing.T) string {
	t.Helper()
	lease, err := w.admin.CoordinationV1().Leases("certplane-system").Get(t.Context(), "certplane-controllers", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// steal takes the lease away from its holder.
func (w world) steal(t *testing.T) {
	t.Helper()
	patch := []byte(`{"spec":{"holderIdentity":"somebody else"}}`)
	if _, err := w.admin.CoordinationV1().Leases("certplane-system").
		Patch(t.Context(), "certplane-controllers", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
