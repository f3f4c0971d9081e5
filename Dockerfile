# docker build -t stepsim . && docker run --rm -v "$PWD:/here" stepsim run gpt3-175b
FROM scratch AS bare
WORKDIR /here
ENTRYPOINT ["/stepsim"]
CMD ["run"]

# A release: programs that are built already, a folder for each processor.
FROM bare AS released
ARG TARGETARCH
COPY $TARGETARCH/stepsim /stepsim

FROM rust:1.95-slim AS build
WORKDIR /src
COPY . .
RUN cargo rustc --profile published --locked --bin stepsim -- -C target-feature=+crt-static

# The binary needs nothing beside it.
FROM bare
COPY --from=build /src/target/published/stepsim /stepsim
