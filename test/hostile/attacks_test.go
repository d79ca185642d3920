package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
)

// The attackers.
const (
	anonymous = "a stranger"
	nobody    = "a user without rights"
	node      = "a node"
	editor    = "an editor of a namespace"
)

// attackFunc attacks until ctx ends, as the client of cfg. It calls armed when
// the attack has its full strength.
type attackFunc func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error

type attack struct {
	name string
	by   []string
	run  attackFunc
}

const (
	reviewPath     = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	configMapsPath = "/api/v1/namespaces/" + team + "/configmaps"
	leasePath      = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/edge-9"
)

// attacks are ordered: those that leave something behind come last.
var attacks = []attack{
	{"answers that are not taken", []string{anonymous}, hold(request{path: "/livez?verbose"}, 50, 12)},
	{"large answers that are not taken", []string{nobody, node, editor}, hold(request{path: "/openapi/v2"}, 6, 90)},
	{"bodies that do not end", []string{anonymous, nobody, node}, hold(endlessReview, 6, 90)},
	{"bodies that do not end, of many service accounts,", []string{editor}, asManyAccounts(10, hold(endlessReview, 1, 90))},
	{"large bodies that do not end", []string{nobody}, hold(request{method: http.MethodPost, path: reviewPath, body: strings.Repeat(" ", 2<<20), header: contentType}, 1, 60)},
	{"headers that do not end", []string{anonymous}, slowHeaders(140)},
	{"large headers", []string{anonymous, nobody}, hold(request{path: "/version", header: []string{"x", strings.Repeat("x", 120<<10)}}, 10, 12)},
	{"larger headers", []string{anonymous}, hold(request{path: "/version", header: []string{"x", strings.Repeat("x", 300<<10)}}, 10, 12)},
	{"long queries", []string{anonymous}, hold(request{path: "/livez?verbose&exclude=" + strings.Repeat("A", 60<<10)}, 20, 12)},
	{"connections without TLS", []string{anonymous}, silentConnections(400)},
	{"connections", []string{anonymous, nobody}, hold(request{path: "/version"}, 200, 1)},
	{"requests", []string{anonymous, nobody}, flood(32, http.MethodGet, "/version", nothing)},
	{"requests that write", []string{nobody, node}, flood(100, http.MethodPost, reviewPath, always(`{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}`))},
	{"watches that are refused", []string{anonymous, nobody}, flood(64, http.MethodGet, requestsPath+"?watch=true", nothing)},
	{"pages of the console", []string{anonymous, nobody, node}, flood(32, http.MethodGet, "/console/requests?search=x", nothing)},
	{"pages that are updated", []string{node}, hold(request{path: "/console/live?of=certificatesigningrequests.certificates.k8s.io"}, 6, 90)},
	{"links that log in", []string{anonymous, nobody}, flood(32, http.MethodPost, "/console/login-code", nothing)},
	{"reads that wait", []string{editor}, flood(200, http.MethodGet, configMapsPath+"?resourceVersion=999999999&resourceVersionMatch=NotOlderThan", nothing)},
	{"watches", []string{editor}, hold(request{path: configMapsPath + "?watch=true"}, 13, 90)},
	{"requests for certificates", []string{node}, flood(50, http.MethodPost, requestsPath, always(ownRequest()))},
	{"requests with finalizers", []string{node}, finalizers(200)},
	{"CAs that are dear to open", []string{editor}, dearCAs(900)},
	{"large objects, more than the store takes,", []string{editor}, largeObjects(300)},
	{"large lists that are not taken", []string{editor}, hold(request{path: configMapsPath, header: []string{"accept", "application/json"}}, 3, 90)},
	{"large lists that are not taken, in CBOR,", []string{editor}, hold(request{path: configMapsPath, header: []string{"accept", "application/cbor"}}, 3, 90)},
	{"requests as large as they can be", []string{node}, largeRequests(1000)},
	{"a large object again and again", []string{editor}, rewrites(4, 30)},
}

// floods are attacks against which limits exist: they use up the resources of a
// machine, and run only with "make hostile".
var floods = []attack{
	{"writes of its status", []string{node}, flood(100, http.MethodPatch, "/api/v1/nodes/edge-9/status", numbered(`{"status":{"nodeInfo":{"bootID":"%d"}}}`))},
	{"writes of its lease", []string{node}, flood(100, http.MethodPatch, leasePath, numbered(`{"spec":{"leaseTransitions":%d}}`))},
	{"writes of an object", []string{editor}, flood(100, http.MethodPatch, configMapsPath+"/busy", numbered(`{"data":{"n":"%d"}}`))},
	{"tokens", []string{editor}, flood(32, http.MethodPost, "/api/v1/namespaces/"+team+"/serviceaccounts/default/token", always(
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`))},
	{"small objects", []string{editor}, flood(20, http.MethodPost, configMapsPath, always(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"small-"}}`))},
}

// request is the sent part of a request: one with a body never ends.
type request struct {
	method, path, body string
	header             []string
	// unanswered is how many connections wait for the first answer at once, or 0 if that
	// does not matter. A connection counts for its client's address until then, and one more
	// of the address closes the oldest: too many would close each other, and none would hold.
	unanswered int
}

var (
	contentType   = []string{"content-type", jsonType}
	endlessReview = request{method: http.MethodPost, path: reviewPath, body: "{", header: append([]string{"content-length", "1000"}, contentType...)}
)

// hold sends the same request on each stream of each connection and reads
// nothing of the answers. A connection that the server closes is opened again.
func hold(r request, connections, streams int) attackFunc {
	if r.method == "" {
		r.method = http.MethodGet
	}
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		var holding, group sync.WaitGroup
		holding.Add(connections)
		if r.unanswered == 0 {
			r.unanswered = connections
		}
		places := make(chan struct{}, r.unanswered)
		for range connections {
			group.Go(func() {
				first := sync.OnceFunc(holding.Done)
				defer first()
				for ctx.Err() == nil {
					places <- struct{}{}
					holdOne(ctx, cfg, r, streams, counts, first, sync.OnceFunc(func() { <-places }))
				}
			})
		}
		holding.Wait()
		armed()
		group.Wait()
		return nil
	}
}

// holdOne holds one connection until the server ends a stream of it. It calls answered
// when it has the first answer, or none.
func holdOne(ctx context.Context, cfg *rest.Config, r request, streams int, counts *tally, holding, answered func()) {
	defer answered()
	conn, err := apitest.DialHTTP2(ctx, cfg)
	if err != nil {
		counts.add("no connection")
		pause(ctx)
		return
	}
	defer conn.Close()
	ended := make(chan struct{}, streams)
	for range streams {
		stream, err := conn.Open(r.method, r.path, r.body != "", r.header...)
		if err != nil {
			counts.add("no stream")
			pause(ctx)
			return
		}
		if r.body != "" {
			go func() { _ = stream.Send([]byte(r.body)) }() // the server need not read all of it
		}
		go func() {
			select {
			case status := <-stream.Status:
				counts.add(status)
				answered()
				<-stream.Reset
			case <-stream.Reset:
			}
			ended <- struct{}{}
		}()
	}
	holding()
	select {
	case <-ended:
		counts.add("end")
	case <-ctx.Done():
	}
}

// pause keeps an attack that is refused from overloading this machine.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// asManyAccounts attacks as this many service accounts of the editor's
// namespace, which the editor creates.
func asManyAccounts(many int, attack attackFunc) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		var ready, group sync.WaitGroup
		ready.Add(many)
		for i := range many {
			name := fmt.Sprintf("account-%d", i)
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := client.CoreV1().ServiceAccounts(team).Create(ctx, account, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("making an account: %w", err)
			}
			token, err := client.CoreV1().ServiceAccounts(team).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("making a token: %w", err)
			}
			as := rest.AnonymousClientConfig(cfg)
			as.Dial, as.BearerToken = cfg.Dial, token.Status.Token
			group.Go(func() { _ = attack(ctx, w, as, counts, sync.OnceFunc(ready.Done)) })
		}
		ready.Wait()
		armed()
		group.Wait()
		return nil
	}
}

// slowHeaders sends headers byte by byte.
func slowHeaders(connections int) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		cfg = rest.CopyConfig(cfg)
		cfg.NextProtos = []string{"http/1.1"}
		return connect(ctx, cfg, connections, counts, armed, func(conn io.Writer) {
			_, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ")
			for err == nil && ctx.Err() == nil {
				pause(ctx)
				_, err = io.WriteString(conn, "x")
			}
		})
	}
}

// silentConnections connects and sends nothing.
func silentConnections(connections int) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		return connect(ctx, cfg, connections, counts, armed, nil)
	}
}

// nothing is the body of requests without one.
func nothing(int64) []byte { return nil }

// always returns the same body.
func always(body string) func(int64) []byte {
	return func(int64) []byte { return []byte(body) }
}

// numbered returns bodies that differ, for writes that change something.
func numbered(format string) func(int64) []byte {
	return func(n int64) []byte { return fmt.Appendf(nil, format, n) }
}

// flood sends requests as fast as they are answered; body returns the nth body.
func flood(workers int, method, path string, body func(n int64) []byte) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		var group sync.WaitGroup
		var made atomic.Int64
		for range workers {
			who, err := client(cfg, false)
			if err != nil {
				return err
			}
			group.Go(func() {
				for ctx.Err() == nil {
					counts.add(w.status(ctx, who, method, path, body(made.Add(1))))
				}
			})
		}
		armed()
		group.Wait()
		return nil
	}
}

// finalizers makes requests that no cleaner can delete.
func finalizers(many int) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		return w.createAll(ctx, cfg, many, requestsPath, counts, armed, func(i int) any {
			csr := finalizedRequest()
			csr.Name = fmt.Sprintf("stays-%d", i)
			return csr
		})
	}
}

// largeRequests fills the store with requests of the largest possible size.
func largeRequests(many int) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		return w.createAll(ctx, cfg, many, requestsPath, counts, armed, func(i int) any {
			csr := finalizedRequest()
			csr.Name, csr.Finalizers = fmt.Sprintf("large-%d", i), nil
			csr.Annotations = map[string]string{"example.com/large": strings.Repeat("x", 60<<10)}
			csr.Spec.Request = append(slices.Clone(csr.Spec.Request), strings.Repeat("x", 35<<10)...)
			return csr
		})
	}
}

// rewrites changes one large object as fast as the server lets it, which keeps
// the past of the object for a while. The attack is armed after begun changes.
func rewrites(workers int, begun int64) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		var group sync.WaitGroup
		var changes atomic.Int64
		for worker := range workers {
			who, err := client(cfg, false)
			if err != nil {
				return err
			}
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large-0"}, Data: map[string]string{
						"data": strings.Repeat("x", 1000<<10), "count": fmt.Sprintf("%d %d", worker, i),
					}}
					body, err := json.Marshal(object)
					if err != nil {
						panic(err) // of this test's own types
					}
					counts.add(w.status(ctx, who, http.MethodPut, configMapsPath+"/large-0", body))
					if changes.Add(1) == begun {
						armed()
					}
				}
			})
		}
		group.Wait()
		return nil
	}
}

// largeObjects fills the store with objects of the largest possible size.
func largeObjects(many int) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		data := map[string]string{"data": strings.Repeat("x", 1000<<10)}
		return w.createAll(ctx, cfg, many, configMapsPath, counts, armed, func(i int) any {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)}, Data: data}
		})
	}
}
