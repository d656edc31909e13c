package hub_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A hub, a subscriber that confirms its subscription, and a message.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	var h *hub.Hub
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	defer srv.Close()
	h, err := hub.New(hubstore.NewMem(), hub.Options{PublicURL: srv.URL, AllowPrivate: true}) // durable store: storage/sqlite
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	<-h.Ready()

	asked, delivered := make(chan bool, 1), make(chan string, 1)
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // verification of intent
			_, _ = io.WriteString(w, r.FormValue("hub.challenge"))
			asked <- true
			return
		}
		body, _ := io.ReadAll(r.Body)
		delivered <- string(body)
	}))
	defer callback.Close()

	const topic = "https://data.example.org/news"
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback.URL}}
	resp, err := http.PostForm(srv.URL, form)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = resp.Body.Close()
	fmt.Println(resp.Status)
	<-asked
	for h.Stats().Subscriptions == 0 { // the hub is still reading the answer
		time.Sleep(time.Millisecond)
	}

	if err := h.Publish(ctx, topic, http.Header{"Content-Type": {"text/plain"}}, []byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-delivered)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 202 Accepted
	// hello
	// <nil>
}
