package main

import (
	"encoding/json"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/certplane/certplane/api/signing/v1alpha1"
)

const (
	// maxBody bounds requests, in bytes.
	maxBody = 1 << 20
	// remembered is the number of requests whose answers are kept.
	remembered = 1000
)

// endpoint implements the protocol; the signer decides what to sign.
type endpoint struct {
	signer signer

	mu sync.Mutex // guards the fields below
	// issued are the certificates for the last requests by their UIDs. A call
	// is repeated when its answer was lost: then nothing new is signed. An
	// endpoint that must not lose them keeps them in its database.
	issued map[string]*v1alpha1.SigningResponse
	order  []string
}

// ServeHTTP implements http.Handler. An error in the HTTP request is reported
// as an HTTP status, an error in the certificate request as an answer.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/sign" {
		http.NotFound(w, r)
		return
	}
	var request v1alpha1.SigningRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&request); err != nil {
		http.Error(w, "the body is not JSON", http.StatusBadRequest)
		return
	}
	if request.APIVersion != v1alpha1.APIVersion || request.Kind != v1alpha1.RequestKind || request.UID == "" {
		http.Error(w, "the body is not a SigningRequest of "+v1alpha1.APIVersion, http.StatusBadRequest)
		return
	}
	answer, err := e.answer(&request)
	if err != nil {
		log.Printf("%s of %s: %v", request.Name, request.Requester.Username, err)
		http.Error(w, "cannot sign at present", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", v1alpha1.ContentType)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Printf("%s of %s: %v", request.Name, request.Requester.Username, err)
	}
}

// answer returns the same certificate for the same request, however often it is
// called.
func (e *endpoint) answer(request *v1alpha1.SigningRequest) (*v1alpha1.SigningResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if answer := e.issued[request.UID]; answer != nil {
		return answer, nil
	}
	answer, err := e.signer.answer(request, time.Now())
	if err != nil {
		return nil, err
	}
	log.Printf("%s of %s: %s", request.Name, request.Requester.Username, summary(answer))
	if answer.Certificate != "" {
		e.remember(request.UID, answer)
	}
	return answer, nil
}

func (e *endpoint) remember(uid string, answer *v1alpha1.SigningResponse) {
	if e.issued == nil {
		e.issued = map[string]*v1alpha1.SigningResponse{}
	}
	if len(e.order) == remembered {
		delete(e.issued, e.order[0])
		e.order = e.order[1:]
	}
	e.issued[uid] = answer
	e.order = append(e.order, uid)
}

func summary(answer *v1alpha1.SigningResponse) string {
	if answer.Failed != nil {
		return answer.Failed.Reason + ": " + answer.Failed.Message
	}
	return "issued"
}
