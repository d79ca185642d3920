package jws_test

import (
	"testing"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest/jwstest"
)

// The URLs of the tests.
const (
	requestURL = "https://ca.example/acme/corp/new-order"
	accountURL = "https://ca.example/acme/corp/acct/1"
)

// request is where the messages of the tests are for.
var request = jwstest.Request{URL: requestURL, Nonce: "bm9uY2U", Account: accountURL}

// testKey is a key of a client. Its headers are for request.
type testKey struct{ jwstest.Key }

// keys has one key of each type.
func keys() map[string]testKey {
	all := map[string]testKey{}
	for alg, key := range jwstest.Keys() {
		all[alg] = testKey{key}
	}
	return all
}

// key returns the public key as the server knows it.
func (k testKey) key() *jws.Key {
	key, problem := jws.KeyOf(k.Public(), jws.Options{})
	if problem != nil {
		panic(problem)
	}
	return key
}

func (k testKey) header(changes ...string) string { return k.Header(request, changes...) }

// outcome returns what the server says about a message of an account with a key:
// the type of the problem, "" for none.
func outcome(body string, account *jws.Key, options jws.Options) string {
	_, problem := read(body, account, options)
	return kind(problem)
}

// read parses and verifies a message, of an account with a key if it has none.
func read(body string, account *jws.Key, options jws.Options) (*jws.Message, *rfc8555.Problem) {
	unverified, problem := jws.Parse([]byte(body), jws.Anybody, options)
	if problem != nil {
		return nil, problem
	}
	return unverified.Verify(account)
}

func kind(problem *rfc8555.Problem) string {
	if problem == nil {
		return ""
	}
	return problem.Word()
}

// checkAnswer checks that a problem can be sent.
func checkAnswer(t *testing.T, reason string, problem *rfc8555.Problem) {
	t.Helper()
	if problem.Status/100 != 4 || problem.Detail == "" || len(problem.Detail) > 1024 {
		t.Errorf("%s: %+v", reason, problem)
	}
	if problem.HasType(rfc8555.ProblemBadSignatureAlgorithm) != (len(problem.Algorithms) > 0) {
		t.Errorf("%s: the type is %s, the algorithms are %v", reason, problem.Type, problem.Algorithms)
	}
}
