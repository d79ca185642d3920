package crash

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// txnMethod is the call with which an API server writes, and watchMethod the call with
// which its caches read writes.
const (
	txnMethod   = "/etcdserverpb.KV/Txn"
	watchMethod = "/etcdserverpb.Watch/Watch"
)

// storeProxy is between one server and its store. It knows each write before the store
// does, and after it.
type storeProxy struct {
	address string
	store   *grpc.ClientConn
	// before is called with the key of each write, after with the same one when the
	// store has done it. If either returns false, the server gets no answer anymore.
	before, after func(key string) bool
	// lag, if not nil, says by how much answers to a call come later.
	lag func(method string) time.Duration
}

// bytesCodec passes messages as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string                        { return "proto" }
func (bytesCodec) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, into any) error {
	*into.(*[]byte) = append([]byte(nil), data...)
	return nil
}

var _ encoding.Codec = bytesCodec{}

// newStoreProxy serves a store at a separate address until the test ends.
func newStoreProxy(t *testing.T, endpoint string, before, after func(key string) bool) *storeProxy {
	t.Helper()
	store, err := grpc.NewClient(strings.TrimPrefix(endpoint, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &storeProxy{address: "http://" + listener.Addr().String(), store: store, before: before, after: after}
	server := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(p.pass), grpc.MaxRecvMsgSize(64<<20))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		store.Close()
	})
	return p
}

// pass passes one call on.
func (p *storeProxy) pass(_ any, in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	ctx, stop := context.WithCancel(in.Context())
	defer stop()
	if given, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, given)
	}
	out, err := p.store.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	send, flush := p.sender(ctx, in, method)
	defer flush()
	written := make(chan string, 1) // a write is one message, and one answer
	go func() {
		for {
			var message []byte
			if in.RecvMsg(&message) != nil {
				_ = out.CloseSend()
				return
			}
			if method == txnMethod {
				key := keyWritten(message)
				if key != "" && !p.before(key) {
					stop()
					return
				}
				written <- key
			}
			if out.SendMsg(&message) != nil {
				return
			}
		}
	}()
	for {
		var message []byte
		switch err := out.RecvMsg(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if method == txnMethod {
			if key := <-written; key != "" && !p.after(key) {
				return status.Error(codes.Unavailable, "the server is dead")
			}
		}
		if err := send(message); err != nil {
			return err
		}
	}
}

// sender returns what sends answers of a call to the server, and what waits until all are
// sent. Late ones keep their order.
func (p *storeProxy) sender(ctx context.Context, in grpc.ServerStream, method string) (send func([]byte) error, flush func()) {
	lag := time.Duration(0)
	if p.lag != nil {
		lag = p.lag(method)
	}
	if lag == 0 {
		return func(message []byte) error { return in.SendMsg(&message) }, func() {}
	}
	type late struct {
		message []byte
		due     time.Time
	}
	queue, sent := make(chan late, 1000), make(chan struct{})
	go func() {
		defer close(sent)
		for next := range queue {
			select {
			case <-time.After(time.Until(next.due)):
				_ = in.SendMsg(&next.message) // the server may have ended the call
			case <-ctx.Done():
			}
		}
	}()
	send = func(message []byte) error {
		select {
		case queue <- late{message, time.Now().Add(lag)}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return send, func() {
		close(queue)
		<-sent
	}
}

// keyWritten returns the key that a transaction writes, empty if it writes none.
func keyWritten(message []byte) string {
	txn := &pb.TxnRequest{}
	if err := proto.Unmarshal(message, txn); err != nil {
		return ""
	}
	for _, op := range txn.Success {
		if put := op.GetRequestPut(); put != nil {
			return string(put.Key)
		}
		if deleted := op.GetRequestDeleteRange(); deleted != nil {
			return string(deleted.Key)
		}
	}
	return ""
}
