package interop

import (
	"net/http"
	"testing"
	"time"
)

// testCleaning: what was denied long ago goes; what was denied now stays.
func (c *cluster) testCleaning(t *testing.T) {
	for name, age := range map[string]time.Duration{"denied-now": 0, "denied-long-ago": 2 * time.Hour} {
		object := c.submit(t, call{body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client", "--cn", "carol", "--name", name)})
		object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": "Denied", "status": "True", "reason": "Test", "lastUpdateTime": time.Now().Add(-age).UTC().Format(time.RFC3339),
		}}}
		if denied := c.do(t, call{method: http.MethodPut, path: csrs + "/" + name + "/approval", body: object}); denied.Code != http.StatusOK {
			t.Fatalf("denying %s: %+v", name, denied)
		}
	}
	eventually(t, "the request that was denied long ago is deleted", func() bool { return !found(t, c.apiServer, csrs+"/denied-long-ago") })
	if !found(t, c.apiServer, csrs+"/denied-now") {
		t.Error("a request that was denied just now is deleted too")
	}
}
