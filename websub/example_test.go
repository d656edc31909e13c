package websub_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"

	"lockstep/websub"
)

// A page that names its topic and hub, a small hub, and a Subscriber that
// receives a change.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var callback, secret string
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		if r.FormValue("hub.mode") == websub.ModeSubscribe {
			callback, secret = r.FormValue("hub.callback"), r.FormValue("hub.secret")
			go ask(websub.VerificationURL(callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {r.FormValue("hub.topic")}, "hub.challenge": {"x"}}))
			return
		}
		body, _ := io.ReadAll(r.Body)
		signature, _ := websub.Sign("sha256", []byte(secret), body)
		req, _ := http.NewRequest(http.MethodPost, callback, bytes.NewReader(body))
		req.Header.Set(websub.SignatureHeader, signature)
		go send(req)
	}))
	defer hub.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", websub.LinkHeader("http://"+r.Host+"/news", []string{hub.URL}))
	}))
	defer page.Close()

	found, err := websub.Discover(ctx, http.DefaultClient, page.URL)
	if err != nil {
		fmt.Println(err)
		return
	}

	var handler http.Handler
	callbacks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	defer callbacks.Close()
	verified, delivered := make(chan string, 1), make(chan string, 1)
	s, err := websub.NewSubscriber(websub.SubscriberOptions{
		Callback: callbacks.URL,
		State:    &keeper{}, // use a file to survive a restart
		Deliver: func(_ context.Context, d websub.Delivery) error {
			delivered <- string(d.Body)
			return nil
		},
		OnEvent: func(e websub.SubscriberEvent) { verified <- string(e.Kind) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler = s.Handler()
	go func() { _ = s.Run(ctx) }()
	if err := s.Want(ctx, websub.Wish{ID: "news", Topic: found.Topic, Hubs: found.Hubs}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-verified)

	p, err := websub.NewPublisher(websub.PublisherOptions{Hub: hub.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Publish(ctx, found.Topic, http.Header{"Content-Type": {"text/plain"}}, []byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-delivered)
	// Output:
	// verified
	// hello
}

func ask(address string) {
	if resp, err := http.Get(address); err == nil {
		_ = resp.Body.Close()
	}
}

func send(r *http.Request) {
	if resp, err := http.DefaultClient.Do(r); err == nil {
		_ = resp.Body.Close()
	}
}
